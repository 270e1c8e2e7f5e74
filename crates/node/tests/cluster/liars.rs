//! Processes that have the secret of members and lie: about the count of their starts, and about epochs.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use algorithms::{Epoch, NodeId, Uid, catalog};
use client::{MemberStatus, Safety};
use member::reign::{Holder, Msg};
use member::{Attempt, Beat, Claim, Envelope, FullPos, Incarnation, News, NodeSet, Round};
use node::config::Config;
use testkit::{Live, PATIENCE, Plan, until};
use transport::{Event, Net, RefuseCode, codec};
use types::{InstanceId, Stamp};

const ALL: &[u32] = &[1, 2, 3, 4, 5];
const OTHERS: &[u32] = &[1, 3, 4, 5];
/// The member that is killed, and whose id the liar takes. Not the best one: the leader goes on.
const TAKEN: u32 = 2;
/// How far epochs may move in the time of a lease.
const LEAP: u64 = 1 << 20;

fn five(safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(5, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// No message of an algorithm and no link is ever in what a liar says.
type Lie = Envelope<u8, u8, Msg>;

/// Has everything that the member with this id has, its address too.
struct Liar {
    net: Net,
    me: Holder,
    config: Config,
}

impl Liar {
    fn start(live: &Live, starts: u64) -> Self {
        let config = Config::load(live.cluster.config()).unwrap();
        let me = Holder { id: NodeId(TAKEN), incarnation: Incarnation { counter: starts, nonce: 7 } };
        let peers = config.peers.iter().filter(|peer| peer.id != me.id).map(|peer| (peer.id.0, peer.address.clone()));
        let mut settings = transport::Settings::new(config.name.clone(), TAKEN, me.incarnation, peers.collect());
        settings.facts = config.facts();
        settings.keyring = config.keyring(me.id).unwrap();
        let address = config.listen_address(me.id).unwrap();
        let listener = TcpListener::bind(address).expect("the address of a killed member is free");
        let mut net = Net::start(settings, listener).unwrap();
        let list = config.first_list();
        let entries = config.list_entries(&list);
        net.set_list(list.stamp, Config::list_digest(&entries), &entries);
        net.want(OTHERS);
        Liar { net, me, config }
    }

    async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(PATIENCE, self.net.event()).await.expect("an event of the liar");
        self.net.drop_ended();
        event
    }

    /// Waits until every other member has answered a dial in this way.
    async fn each(&mut self, fits: impl Fn(&Event) -> Option<u32>) {
        let mut left = OTHERS.to_vec();
        while !left.is_empty() {
            let event = self.event().await;
            left.retain(|&id| fits(&event) != Some(id));
        }
    }

    fn say(&mut self, lie: &Lie) {
        let bytes = [&InstanceId::ELECTION.0.to_be_bytes()[..], &codec::to_vec(lie).unwrap()].concat();
        for &id in OTHERS {
            self.net.send(id, &bytes);
        }
        self.net.flush();
    }

    /// A heartbeat of a leader, an election and a bid for an epoch, each with this number or the next one that fits.
    fn claim(&mut self, number: u64) {
        let view = self.config.view();
        let uid = Uid::plain(TAKEN);
        let attempt = Attempt(number - number % ALL.len() as u64);
        // Under classic safety the epoch of an attempt is the attempt and the winner's rank.
        let epoch = Epoch(attempt.0 + u64::from(TAKEN - 1));
        for next_attempt_min in [Attempt(0), attempt] {
            let news = News { next_attempt_min, leader: Some(Claim { epoch, uid }), firsthand: true };
            let incarnation = self.me.incarnation.counter;
            self.say(&Lie::Beat(Beat {
                news,
                stands: true,
                ask: true,
                incarnation,
                setbacks: 0,
                priority: 0,
                mode: None,
                hold: None,
            }));
        }
        let round = Round { attempt, initiator: self.me.id, incarnation: self.me.incarnation.counter };
        let participants: NodeSet = FullPos::all(&view).collect();
        self.say(&Lie::Join { round, list: Stamp::FIRST, participants });
        if self.config.safety == Safety::Quorum {
            let list = Arc::new(self.config.first_list());
            let bid = Msg::Bid { epoch, request: number, holder: self.me, after: None, no_child: true, list };
            self.say(&Lie::Authority(bid));
        }
    }

    /// What has arrived is of no interest, and a connection that a member has closed is made anew.
    async fn listen(&mut self) {
        while tokio::time::timeout(Duration::from_millis(1), self.event()).await.is_ok() {}
    }
}

#[tokio::test]
async fn a_claimed_count_of_starts_that_no_member_has_does_not_lock_an_id_out() {
    for safety in Safety::ALL {
        let mut live = Live::start(&five(safety));
        live.agreement(ALL).await;
        live.kill(TAKEN).await;
        let mut liar = Liar::start(&live, 1 << 60);
        liar.each(|event| match event {
            Event::Refused { peer, code: RefuseCode::Run, .. } => Some(*peer),
            Event::Up { peer, .. } => panic!("{safety}: {peer} believes 2^60 starts"),
            _ => None,
        })
        .await;
        drop(liar);
        until("the address is free", || TcpListener::bind(&live.cluster.endpoints()[1].address).ok().map(drop)).await;
        live.cluster.start(TAKEN).unwrap();
        live.agreement(ALL).await;
        let status = live.client(TAKEN).await.status().await.unwrap();
        assert_eq!((status.incarnation, status.old_volume), (2, false), "{safety}");
        live.cluster.stop().await;
    }
}

/// How far one member has moved the epochs of the others.
struct Moved {
    by: u64,
    /// Begun leases since the liar was connected, and one more for each end of them.
    leases: u64,
}

/// Orders an election until a leader carries it out: the liar's last claims may still be believed.
async fn next_epoch(live: &Live, before: u64) -> u64 {
    let ordering = async {
        while !live.ctl(&["elect"]).await.status.success() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ordering).await.expect("a leader that takes orders");
    let agreed = |all: &[MemberStatus]| {
        let (leader, epoch) = (all[0].leader, all[0].epoch);
        leader.is_some() && epoch > before && all.iter().all(|status| (status.leader, status.epoch) == (leader, epoch))
    };
    live.statuses_that(OTHERS, agreed).await[0].epoch
}

/// The liar's numbers grow in strides of `stride`, as fast as they are taken. Afterwards the others agree on a leader.
async fn push(safety: Safety, stride: u64) -> Moved {
    let mut live = Live::start(&five(safety));
    live.agreement(ALL).await;
    if safety == Safety::Quorum {
        live.voting(ALL).await;
    }
    live.kill(TAKEN).await;
    let (_, before) = live.agreement(OTHERS).await;
    let begun = Instant::now();
    let mut liar = Liar::start(&live, 2);
    let lease = liar.config.settings.timing.lease;
    liar.each(|event| if let Event::Up { peer, .. } = event { Some(*peer) } else { None }).await;
    for number in 1..=400_u64 {
        liar.claim(before.saturating_add(stride.saturating_mul(number)));
        if number % 8 == 0 {
            liar.listen().await;
        }
    }
    drop(liar);
    // The next epoch is above all that the others have seen.
    let after = next_epoch(&live, before).await;
    let leases = begun.elapsed().div_duration_f64(lease) as u64 + 2;
    live.cluster.stop().await;
    Moved { by: after - before, leases }
}

#[tokio::test]
async fn a_member_that_lies_about_epochs_moves_them_by_one_leap_in_a_lease_at_most() {
    for safety in Safety::ALL {
        for stride in [1 << 40, LEAP - 16, 1 << 12] {
            let Moved { by, leases } = push(safety, stride).await;
            println!("{safety}, strides of {stride}: moved by {by} epochs in {leases} leases");
            assert!(by <= leases * LEAP, "{safety}, strides of {stride}: moved by {by} epochs in {leases} leases");
        }
    }
}
