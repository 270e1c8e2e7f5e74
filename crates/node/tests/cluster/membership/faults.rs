//! The list grows and shrinks while members are killed, paused and cut off: never two leaders, and tokens never go back.

use std::time::Duration;

use client::{Chaos, Way};
use sim::Rng;
use testkit::claims::Pollers;
use types::{Change, NodeId, PeerRole};

use super::{Changing, listed};

/// Members that ever run, at most. Three at first, and in every round three that are new.
const NODES_MAX: u32 = 153;
/// From three members to five, to three, to two, and to three again.
const SIZES: [usize; 6] = [4, 5, 4, 3, 2, 3];

/// What is done to a member while the list changes.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Nothing,
    Kill(u32),
    Pause(u32, Duration),
    Cut(u32, u32, Duration),
}

fn pick(random: &mut Rng, of: &[u32]) -> u32 {
    of[random.below(of.len() as u64) as usize]
}

fn fault(random: &mut Rng, inside: &[u32]) -> Fault {
    let time = Duration::from_millis(100 + random.below(900));
    let victim = pick(random, inside);
    match random.below(4) {
        0 => Fault::Nothing,
        1 => Fault::Kill(victim),
        2 => Fault::Pause(victim, time),
        _ => {
            let others: Vec<u32> = inside.iter().copied().filter(|&id| id != victim).collect();
            Fault::Cut(victim, pick(random, &others), time)
        }
    }
}

impl Changing {
    /// Makes the change while this happens; afterwards all members run and reach each other.
    async fn change_under(&mut self, change: Change, fault: Fault, delay: Duration) {
        let asker = self.asker();
        let asked = tokio::spawn({
            let asker = asker.clone();
            async move { asker.reach(change).await }
        });
        tokio::time::sleep(delay).await;
        match fault {
            Fault::Nothing => {}
            Fault::Kill(id) => {
                self.live.kill(id).await;
                tokio::time::sleep(delay).await;
                self.live.cluster.start(id).unwrap();
            }
            Fault::Pause(id, time) => {
                self.live.cluster.pause(id).unwrap();
                tokio::time::sleep(time).await;
                self.live.cluster.resume(id).unwrap();
            }
            Fault::Cut(id, peer, time) => {
                for (at, to) in [(id, peer), (peer, id)] {
                    if let Some(client) = asker.client(at).await {
                        let _ = client.chaos(Chaos::Cut { peer: to, way: Way::Both }).await;
                    }
                }
                tokio::time::sleep(time).await;
                for at in [id, peer] {
                    if let Some(client) = asker.client(at).await {
                        let _ = client.chaos(Chaos::Heal).await;
                    }
                }
            }
        }
        let reached = asked.await.unwrap();
        reached.unwrap_or_else(|error| panic!("under {fault:?}: {error}\n{}", self.live.logs()));
    }
}

#[tokio::test]
async fn three_become_five_three_two_and_three_under_faults_with_one_leader_and_rising_tokens() {
    let rounds = testkit::number("CONCLAVE_MEMBER_ROUNDS", 1);
    let mut random = Rng::new(testkit::number("CONCLAVE_MEMBER_SEED", 1));
    let nodes = NODES_MAX.min(3 + 3 * rounds as u32);
    let mut changing = Changing::start(3, nodes);
    let (_, mut epoch) = changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    let pollers = Pollers::start(&changing.live);
    let mut stamp = types::Stamp::FIRST;
    let (mut used, mut removed) = (3, Vec::new());
    for round in 0..rounds {
        for size in SIZES {
            let inside = changing.inside();
            let (fault, delay) = (fault(&mut random, &inside), Duration::from_millis(random.below(300)));
            if size > inside.len() {
                let outside: Vec<u32> = (1..=nodes).filter(|id| !inside.contains(id)).collect();
                used += 1;
                let id = if used <= nodes { used } else { pick(&mut random, &outside) };
                changing.make_joiner(id);
                let address = changing.address(id);
                changing.reach(Change::List(listed(id, PeerRole::Learner, &address))).await;
                changing.live.cluster.start(id).unwrap();
                changing.change_under(Change::List(listed(id, PeerRole::Member, &address)), fault, delay).await;
                changing.inside.insert(id);
            } else {
                let id = pick(&mut random, &inside);
                changing.change_under(Change::Unlist(NodeId(id)), fault, delay).await;
                changing.inside.remove(&id);
                removed.push(id);
                // A member that knew of its removal before it was killed does not start again.
                let killed = matches!(fault, Fault::Kill(killed) if killed == id);
                changing.ends_removed(id, if killed { &[0, 2] } else { &[0] }).await;
            }
            let (_, later) = changing.agreement().await;
            assert!(later >= epoch, "epoch {later} after {epoch} in round {round}");
            epoch = later;
            let list = changing.reach(Change::List(changing.any_listed())).await;
            assert!(list.stamp >= stamp, "list {} after {stamp} in round {round}", list.stamp);
            stamp = list.stamp;
            assert_eq!(list.voters().count(), size, "{list:?}");
            pollers.judge(&changing.live);
            // It may be incomplete: the ledgers of removed members are not asked for.
            let (code, said) = changing.audit(&[]).await;
            assert_ne!(code, Some(7), "{said}");
        }
        // An id that is used again has lost its first ledger.
        if used <= nodes {
            changing.is_ordered(&removed).await;
        }
    }
    let (answers, claims) = pollers.judge(&changing.live);
    assert!(answers > 0 && claims > 0);
    println!("{rounds} rounds, {answers} answers, {claims} claims to lead");
}

impl Changing {
    /// With the ledgers of the removed members the audit is complete over all lists.
    async fn is_ordered(&self, removed: &[u32]) {
        let (code, said) = self.audit(removed).await;
        assert_eq!(code, Some(0), "{said}");
        println!("{}", said.lines().last().unwrap_or_default());
    }

    /// Asks the present members: those of the config may all be gone.
    async fn audit(&self, removed: &[u32]) -> (Option<i32>, String) {
        let addresses: Vec<String> = self.inside.iter().map(|&id| self.address(id)).collect();
        let directories = removed.iter().map(|&id| self.live.cluster.data_directory(id).display().to_string());
        let mut words = ["audit", "--member-timeout", "2s", "--endpoints"].map(str::to_owned).to_vec();
        words.push(addresses.join(","));
        words.extend(directories.flat_map(|directory| ["--ledger".to_owned(), directory]));
        let audit = self.live.ctl(&words.iter().map(String::as_str).collect::<Vec<_>>()).await;
        (audit.status.code(), format!("{}{}", testkit::stdout(&audit), testkit::stderr(&audit)))
    }

    /// A member as the list in force has it: asking for it changes nothing.
    fn any_listed(&self) -> types::Listed {
        let id = *self.inside.first().unwrap();
        listed(id, PeerRole::Member, &self.address(id))
    }
}
