//! Clients that take what they can get: requests, memory, file descriptors, connections. Members must not notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, SystemTime};

use algorithms::catalog;
use client::{Announcement, Call, CallId, Client, FailCode, Happened, InstanceId, Reply, Request, Response, Safety};
use node::ledger::Ledger;
use testkit::certificates::{Authority, CA, VALID};
use testkit::{Live, PATIENCE, Plan, done, number, resident_kib, stdout, strace, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use transport::{ClientConnection, HANDSHAKE_FRAME_MAX_BYTES, codec, connect_client};
use types::Stamp;

const ALL: &[u32] = &[1, 2, 3];

fn three() -> Plan {
    Plan { safety: Safety::Quorum, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

async fn raw(live: &Live, id: u32) -> ClientConnection {
    let endpoint = &live.cluster.endpoints()[id as usize - 1];
    connect_client(&endpoint.address, live.cluster.settings()).await.unwrap()
}

/// A ledger of many entries, so that its pages are large.
fn fill_ledger(live: &Live, id: u32) {
    let data = live.cluster.data_directory(id);
    fs::create_dir_all(&data).unwrap();
    let ledger: Ledger<u32> = Ledger::open(&data, None);
    let mut writer = ledger.writer();
    for sequence in 0..1200 {
        let what = Happened::Granted { epoch: sequence, holder: 1, list: Stamp::FIRST };
        writer.write(&Announcement {
            member: id,
            instance: InstanceId::ELECTION,
            sequence,
            wall_ms: 1,
            boot_ns: 1,
            what,
        });
    }
}

#[tokio::test]
async fn a_flood_of_requests_for_the_ledger_costs_little_memory_and_no_election() {
    const REQUESTS: u32 = 30_000;
    let mut live = Live::alone_prepared(&three(), "");
    for &id in ALL {
        fill_ledger(&live, id);
    }
    live.cluster.start_all().unwrap();
    let (epoch, begun) = settled(&mut live).await;
    let pid = live.cluster.pid(3).unwrap();
    let resident = resident_kib(pid);
    let (mut sender, mut receiver) = raw(&live, 3).await.split();
    let asking = async {
        for id in 0..REQUESTS {
            let call =
                Call { id: CallId(id), instance: InstanceId::ELECTION, request: Request::History { after: None } };
            sender.send(&codec::to_vec(&call).unwrap()).await.unwrap();
        }
    };
    let reading = async {
        let (mut pages, mut refused, mut most) = (0, 0, 0);
        for _ in 0..REQUESTS {
            let frame = receiver.recv().await.unwrap().expect("still connected");
            match codec::decode::<Reply>(&frame).unwrap().response {
                Response::History(page) => {
                    assert_eq!(page.entries.len(), 1000);
                    pages += 1;
                }
                Response::Failed { code: FailCode::Failed, .. } => refused += 1,
                other => panic!("{other:?}"),
            }
            most = most.max(resident_kib(pid));
        }
        (pages, refused, most)
    };
    let ((), (pages, refused, most)) = tokio::time::timeout(3 * PATIENCE, async { tokio::join!(asking, reading) })
        .await
        .expect("every request is answered");
    assert!(pages > 0 && refused > 0, "{pages} pages, {refused} refused");
    assert!(most < resident + (64 << 10), "{most} KiB after {resident} KiB");
    assert_eq!(live.agreement_on(3, ALL).await, epoch, "no election");
    assert_eq!(reigns(&live).await, begun, "a reign began");
    assert!(live.client(3).await.history().await.unwrap().entries.len() > 1200, "one after another they are answered");
}

/// Before clients had budgets such requests took 150 bytes of memory each. Calls that were read but not answered yet must not
/// keep the event loop from heartbeats either, whether the client reads the answers or not.
#[tokio::test]
async fn a_million_requests_for_the_ledger_without_a_pause_cost_little_memory_and_no_election() {
    let requests = number("CONCLAVE_LEDGER_REQUESTS", 1_000_000) as u32;
    let mut live = Live::alone(&three());
    let (epoch, begun) = settled(&mut live).await;
    let pid = live.cluster.pid(3).unwrap();
    let resident = resident_kib(pid);
    let (mut sent, mut connections, mut most) = (0_u32, 0, resident);
    let flood = async {
        while sent < requests {
            let (mut sender, mut receiver) = raw(&live, 3).await.split();
            let read = connections % 2 == 0;
            connections += 1;
            let reading = tokio::spawn(async move { while read && matches!(receiver.recv().await, Ok(Some(_))) {} });
            // A client that takes more than it reads is cut: it comes back.
            while sent < requests {
                let request = Request::History { after: None };
                let call = Call { id: CallId(sent), instance: InstanceId::ELECTION, request };
                if sender.send(&codec::to_vec(&call).unwrap()).await.is_err() {
                    break;
                }
                sent += 1;
                if sent.is_multiple_of(1000) {
                    most = most.max(resident_kib(pid));
                }
            }
            reading.abort();
        }
    };
    tokio::time::timeout(6 * PATIENCE, flood).await.expect("a member that reads, or closes");
    println!("{requests} requests over {connections} connections: {resident} KiB became {most} KiB");
    assert!(most < resident + (16 << 10), "{most} KiB after {resident} KiB");
    assert_eq!(live.agreement_on(3, ALL).await, epoch, "no election");
    let history = stdout(&live.ctl(&["history", "--member-timeout", "5s"]).await);
    assert_eq!(reigns(&live).await, begun, "{history}");
}

#[tokio::test]
async fn idle_clients_are_closed_and_watchers_are_not() {
    let mut live = Live::start_with(&three(), "\n[timing]\nclient_idle = \"1s\"\n");
    live.agreement(ALL).await;
    let watching = live.client(1).await;
    let mut watch = watching.watch().await.unwrap();
    watch.next().await.unwrap().expect("the present standing");
    let mut idle = raw(&live, 1).await;
    let end = tokio::time::timeout(PATIENCE, idle.recv()).await.expect("closed");
    assert!(matches!(end, Ok(None)), "{end:?}");
    watching.status().await.expect("a watcher stays connected");
}

/// As a container's filter of system calls may do it.
const NO_UNSHARE: &str =
    "before='strace -D -qq -f --seccomp-bpf -o /dev/null -e trace=unshare -e inject=unshare:error=EPERM'";

#[tokio::test]
async fn clients_leave_descriptors_for_members_and_the_disk() {
    let mut live = Live::behind_shell(&three(), "ulimit -n 160");
    live.cluster.start_all().unwrap();
    crowded(live).await;
}

/// Where threads may not have tables of open files of their own, clients take descriptors away from the disk's thread too.
#[tokio::test]
async fn clients_leave_descriptors_for_the_disk_where_it_shares_theirs() {
    if !strace::works() {
        return;
    }
    let mut live = Live::behind_shell(&three(), &format!("ulimit -n 160\n{NO_UNSHARE}"));
    live.cluster.start_all().unwrap();
    let pid = live.cluster.pid(1).unwrap();
    until("the disk's thread has the files of the first one", || {
        let files = |thread: u32| {
            let links = fs::read_dir(format!("/proc/{pid}/task/{thread}/fd")).ok()?;
            links.map(|link| fs::read_link(link.ok()?.path()).ok()).collect::<Option<BTreeSet<_>>>()
        };
        let disk = threads(pid).into_iter().find(|(_, name)| name == "disk")?.0;
        (files(pid)? == files(disk)?).then_some(())
    })
    .await;
    crowded(live).await;
}

/// The threads of a process, with their names.
fn threads(pid: u32) -> Vec<(u32, String)> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let named = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.as_ref().ok()?.path().join("comm")).ok()?;
        Some((task.ok()?.file_name().to_str()?.parse().ok()?, name.trim_end().to_owned()))
    });
    named.collect()
}

/// So many clients that no descriptor would be left for a member that returns, or for the disk.
async fn crowded(mut live: Live) {
    live.agreement_on(3, ALL).await;
    let pids: Vec<_> = ALL[..2].iter().map(|&id| live.cluster.pid(id)).collect();
    // They never stop trying: a descriptor that a member gives back is theirs, if they may have it.
    let (came, mut coming) = mpsc::unbounded_channel();
    let mut crowds = JoinSet::new();
    for id in [1, 2] {
        let (address, settings) = (live.cluster.endpoints()[id - 1].address.clone(), live.cluster.settings().clone());
        let came = came.clone();
        crowds.spawn(async move {
            let mut crowd: Vec<Client> = Vec::new();
            loop {
                match Client::connect(&address, &settings).await {
                    Ok(client) => crowd.push(client),
                    // Once none is admitted any more, the test goes on.
                    Err(_) => _ = came.send((id, crowd.len())),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
    }
    let mut full = BTreeMap::new();
    while full.len() < 2 {
        let refusal = tokio::time::timeout(3 * PATIENCE, coming.recv()).await;
        let (id, clients) = refusal.expect("clients beyond the limit are refused").unwrap();
        full.insert(id, clients);
    }
    assert!(full.values().all(|&clients| clients >= 32), "{full:?}");
    live.kill(3).await;
    let epoch = live.agreement_on(2, &ALL[..2]).await;
    live.cluster.start(3).unwrap();
    live.agreement_that(ALL, |leader, later| leader == 3 && later > epoch).await;
    assert_eq!(ALL[..2].iter().map(|&id| live.cluster.pid(id)).collect::<Vec<_>>(), pids);
    crowds.shutdown().await;
}

/// Descriptors may run out for the whole machine, whatever this process reserves.
#[tokio::test]
async fn a_write_without_a_descriptor_is_repeated_and_the_voter_goes_on() {
    if !strace::works() {
        return;
    }
    let mut live = Live::alone(&three());
    let (_, epoch) = live.agreement(ALL).await;
    live.voting(ALL).await;
    let pid = live.cluster.pid(1).unwrap();
    let temporary = live.cluster.data_directory(1).join("state.tmp");
    let words = strace::inject(&temporary, &["openat:error=EMFILE:when=1..3".to_owned()]);
    let Some(_strace) = strace::attach(&words, pid).await else { return };
    done(&live.ctl(&["step-down"]).await);
    live.agreement_that(ALL, |_, later| later > epoch).await;
    until("the failed writes", || live.logs().contains("no file descriptor is left").then_some(())).await;
    assert_eq!(live.cluster.pid(1), Some(pid));
    // Another write, after the failures.
    done(&live.ctl(&["step-down"]).await);
    live.agreement_that(ALL, |_, later| later > epoch + 1).await;
    assert_eq!(live.cluster.pid(1), Some(pid), "{}", live.logs());
}

/// Waits for the best member to lead and for all votes, and returns its epoch and how many reigns there were: a best member that
/// starts late takes over from another one.
async fn settled(live: &mut Live) -> (u64, u64) {
    live.agreement_on(3, ALL).await;
    live.voting(ALL).await;
    let epoch = live.agreement_on(3, ALL).await;
    (epoch, reigns(live).await)
}

async fn reigns(live: &Live) -> u64 {
    let (audit, _) = live.json(&["audit"]).await;
    audit["reigns"].as_u64().unwrap_or_else(|| panic!("{audit}"))
}

/// The hello of protocol version 1 that cost the members of that version most: as many different names of facts as fit, each
/// of which was compared with all before it.
fn hello_of_many_facts(cluster: &str, from: u8, to: u8) -> Vec<u8> {
    let name = [&[cluster.len() as u8][..], cluster.as_bytes()].concat();
    let mut body = [&b"conclave"[..], &[0, 1], &name, &[0; 32], &[0, from, to, 1, 7, 1]].concat();
    // 251 says that a number of two bytes follows; a fact is a name of two bytes and an empty value.
    let facts = (HANDSHAKE_FRAME_MAX_BYTES - body.len() - 3) / 4;
    body.push(251);
    body.extend((facts as u16).to_le_bytes());
    body.extend((0..facts).flat_map(|fact| [2, 1 + (fact % 127) as u8, 1 + (fact / 127) as u8, 0]));
    [&(body.len() as u32).to_be_bytes()[..], &body].concat()
}

/// The first message of an honest client, as everybody on its way can record it.
async fn first_message(live: &Live) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let recording = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut message = vec![0; 4];
        stream.read_exact(&mut message).await.unwrap();
        message.resize(4 + usize::from(message[3]), 0);
        stream.read_exact(&mut message[4..]).await.unwrap();
        message
    };
    tokio::join!(recording, Client::connect(&address, live.cluster.settings())).0
}

/// Connects in groups, at this rate, for ten seconds, and says one hello after another of these.
async fn flood(address: String, rate: usize, hellos: Vec<Vec<u8>>) {
    const GROUP: usize = 60;
    let mut pace = tokio::time::interval(Duration::from_secs(1) * GROUP as u32 / rate as u32);
    let mut under_way = JoinSet::new();
    for number in 0..10 * rate {
        if number % GROUP == 0 {
            pace.tick().await;
        }
        let (address, hello) = (address.clone(), hellos[number % hellos.len()].clone());
        under_way.spawn(async move {
            let Ok(mut stream) = TcpStream::connect(&address).await else { return };
            let _ = stream.write_all(&hello).await;
            let _ = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 64])).await;
        });
    }
    while under_way.join_next().await.is_some() {}
}

/// At the rates, and in the groups, at which hellos of protocol version 1 deposed leaders.
#[tokio::test]
async fn a_flood_of_hellos_without_the_secret_deposes_no_leader() {
    let mut live = Live::alone(&three());
    let (epoch, begun) = settled(&mut live).await;
    let name = node::config::Config::load(live.cluster.config()).unwrap().name;
    let recorded = first_message(&live).await;
    // With the name of the right key, but not made with it.
    let mut forged = recorded.clone();
    *forged.last_mut().unwrap() ^= 1;
    let mut floods = JoinSet::new();
    for (&id, rate) in ALL.iter().zip([100, 100, 500]) {
        let many_facts = hello_of_many_facts(&name, id as u8 % 3 + 1, id as u8);
        let hellos = vec![many_facts, recorded.clone(), forged.clone()];
        floods.spawn(flood(live.cluster.endpoints()[id as usize - 1].address.clone(), rate, hellos));
    }
    while let Some(flooded) = floods.join_next().await {
        flooded.unwrap();
    }
    assert_eq!(live.agreement(ALL).await, (3, epoch), "{}", live.logs());
    let history = stdout(&live.ctl(&["history", "--member-timeout", "5s"]).await);
    assert_eq!(reigns(&live).await, begun, "{history}");
}

/// Each costs the leader a key exchange, a signature and the check of a certificate: on a thread that sends no heartbeats.
#[tokio::test]
async fn a_flood_of_foreign_certificates_deposes_no_leader() {
    let mut live = Live::alone(&Plan { tls: true, ..three() });
    let (epoch, begun) = settled(&mut live).await;
    let leader = live.cluster.endpoints()[2].address.clone();
    let foreign = Authority::new().unwrap();
    let (certificate, key) = foreign.issue(client::Holder::Operator, SystemTime::now() + VALID).unwrap();
    // It trusts the members, so that it is they who refuse.
    let ca = std::fs::read_to_string(live.cluster.directory().join(CA)).unwrap() + &foreign.certificate().unwrap();
    let own = client::Certificate::from_pem(ca.as_bytes(), certificate.as_bytes(), key.as_bytes()).unwrap();
    let settings = client::ClientSettings { keyring: own.into(), ..live.cluster.settings().clone() };
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    let mut under_way = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        pace.tick().await;
        let (address, settings) = (leader.clone(), settings.clone());
        under_way.spawn(async move { Client::connect(&address, &settings).await.is_err() });
    }
    while let Some(refused) = under_way.join_next().await {
        assert!(refused.unwrap(), "a foreign certificate was accepted");
    }
    assert_eq!(live.agreement(ALL).await, (3, epoch), "{}", live.logs());
    assert_eq!(reigns(&live).await, begun, "a reign began");
}

/// An empty frame costs its sender nothing: clients that send them for ever must cost the member nothing either. Members
/// that took a turn's worth of them from each connection held 100 MiB of them, and lost their leases over them.
#[tokio::test]
async fn clients_that_send_empty_frames_are_cut_and_cost_no_memory() {
    const CLIENTS: usize = 60;
    const FRAMES: usize = 100_000;
    let mut live = Live::alone(&three());
    let (epoch, begun) = settled(&mut live).await;
    let pid = live.cluster.pid(3).unwrap();
    let resident = resident_kib(pid);
    let (mut sender, mut receiver) = raw(&live, 3).await.split();
    sender.send(&[]).await.unwrap();
    let end = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("closed");
    assert!(!matches!(end, Ok(Some(_))), "the first one is answered: {end:?}");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(raw(&live, 3).await.split());
    }
    let mut sending = JoinSet::new();
    for (mut sender, mut receiver) in clients {
        sending.spawn(async move {
            let mut sent = 0;
            while sent < FRAMES && sender.send(&[]).await.is_ok() {
                sent += 1;
            }
            assert!(sent < FRAMES, "the member took {FRAMES} empty frames");
            let end = tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("closed");
            assert!(!matches!(end, Ok(Some(_))), "{end:?}");
        });
    }
    let mut most = resident;
    let all_cut = async {
        while let Some(cut) = sending.join_next().await {
            cut.unwrap();
            most = most.max(resident_kib(pid));
        }
    };
    tokio::time::timeout(2 * PATIENCE, all_cut).await.expect("a member that reads, or closes");
    assert!(most < resident + (16 << 10), "{most} KiB after {resident} KiB");
    assert_eq!(live.agreement_on(3, ALL).await, epoch, "no election");
    assert_eq!(reigns(&live).await, begun, "a reign began");
}
