//! Processes without the cluster's secret, and with less than the secret of members: at the address of a dead member,
//! at the members' ports, and between a client and its member.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use algorithms::catalog;
use client::Safety;
use testkit::{Live, Plan, ctl, free_ports_elsewhere, stderr, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

const ALL: &[u32] = &[1, 2, 3, 4, 5];
/// So many answers different strangers give in turn.
const ANSWERS: usize = 6;
/// Longer than any patience after which a member acts on what strangers say; nothing must happen, so there is no event to
/// wait for.
const OBSERVATION: Duration = Duration::from_secs(5);

fn five(safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(5, catalog::row(catalog::DEFAULT).unwrap()) }
}

/// What a stranger answers to a dial; the number picks one.
fn answer(number: usize) -> Vec<u8> {
    let framed = |body: &[u8]| [&(body.len() as u32).to_be_bytes()[..], body].concat();
    // Refusals as protocol versions 1 and 2 encoded them: refused (0), code, text. Code 9 said that the dialler's volume is
    // old, and that a later process was seen; code 4 that another process has its id.
    let stale = framed(&[&[0, 9, 200, 4][..], b"gone"].concat());
    let duplicate = framed(&[&[0, 4, 4][..], b"twin"].concat());
    let versions = |min: u16, max: u16| {
        let range = [&b"conclave"[..], &min.to_be_bytes(), &max.to_be_bytes()].concat();
        framed(&range)
    };
    let header = framed(&[&b"conclave"[..], &[0, 3, 0, 3, 0, 1, 2, 3, 4]].concat());
    match number % ANSWERS {
        0 => stale,
        1 => duplicate,
        2 => versions(7, 9),
        3 => header,
        4 => framed(&[0xa5; 48]),
        _ => vec![0xff; 64],
    }
}

/// Answers every dial at this address, and counts them.
async fn stranger_at(address: String) -> (JoinHandle<()>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(&address).await.expect("the address of a dead member is free");
    let dials = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&dials);
    let listening = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = count.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move {
                let mut sink = [0; 4096];
                let _ = stream.read(&mut sink).await;
                let _ = stream.write_all(&answer(number)).await;
                let _ = stream.read(&mut sink).await;
            });
        }
    });
    (listening, dials)
}

/// Strangers at the addresses of the dead members say all kinds of things to the survivors.
async fn strangers_instead_of(dead: &[u32], safety: Safety) {
    let mut live = Live::start(&five(safety));
    live.agreement(ALL).await;
    if safety == Safety::Quorum {
        live.voting(ALL).await;
    }
    live.kill_all(dead).await;
    let survivors: Vec<u32> = ALL.iter().copied().filter(|id| !dead.contains(id)).collect();
    let pids = |live: &Live| survivors.iter().map(|&id| live.cluster.pid(id)).collect::<Vec<_>>();
    let before = pids(&live);
    let mut strangers = Vec::new();
    for &id in dead {
        strangers.push(stranger_at(live.cluster.endpoints()[id as usize - 1].address.clone()).await);
    }
    for (_, dials) in &strangers {
        let heard = || (dials.load(Ordering::Relaxed) >= ANSWERS * survivors.len()).then_some(());
        until("the survivors dial the strangers", heard).await;
    }
    tokio::time::sleep(OBSERVATION).await;
    let exit = tokio::time::timeout(Duration::ZERO, live.cluster.next_exit()).await;
    assert!(exit.is_err(), "{safety}: {exit:?}\n{}", live.logs());
    assert_eq!(pids(&live), before, "{safety}: {}", live.logs());
    for (listening, _) in strangers {
        listening.abort();
        let _ = listening.await;
    }
    // The volumes are as good as before.
    live.kill_all(&survivors).await;
    live.cluster.start_all().unwrap();
    live.agreement(ALL).await;
    live.cluster.stop().await;
}

#[tokio::test]
async fn strangers_at_the_addresses_of_dead_members_end_nothing() {
    for safety in Safety::ALL {
        strangers_instead_of(&[4, 5], safety).await;
    }
}

#[tokio::test]
async fn a_member_among_strangers_only_keeps_running() {
    for safety in Safety::ALL {
        strangers_instead_of(&[2, 3, 4, 5], safety).await;
    }
}

/// Carries bytes between clients and a member, keeps what the clients sent, and can add bytes to a stream.
#[derive(Default)]
struct Relay {
    recorded: Mutex<Vec<u8>>,
    added: Mutex<Option<Vec<u8>>>,
}

impl Relay {
    async fn start(member: String) -> (Arc<Self>, String) {
        let relay = Arc::new(Relay::default());
        let port = free_ports_elsewhere(1).unwrap()[0];
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let shared = Arc::clone(&relay);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(upstream) = TcpStream::connect(&member).await else { return };
                tokio::spawn(Arc::clone(&shared).carry(client, upstream));
            }
        });
        (relay, format!("127.0.0.1:{port}"))
    }

    async fn carry(self: Arc<Self>, client: TcpStream, member: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_member, mut to_member) = member.into_split();
        let back = tokio::spawn(async move {
            let _ = tokio::io::copy(&mut from_member, &mut to_client).await;
        });
        let mut buffer = vec![0; 64 << 10];
        let mut first = true;
        while let Ok(read @ 1..) = from_client.read(&mut buffer).await {
            self.recorded.lock().await.extend(&buffer[..read]);
            if to_member.write_all(&buffer[..read]).await.is_err() {
                break;
            }
            // The first bytes are the handshake's.
            if !std::mem::take(&mut first)
                && let Some(added) = self.added.lock().await.take()
                && to_member.write_all(&added).await.is_err()
            {
                break;
            }
        }
        drop(to_member);
        let _ = back.await;
    }
}

#[tokio::test]
async fn a_recorded_order_is_carried_out_once_and_a_relay_adds_none_to_an_honest_connection() {
    let mut live = Live::start(&five(Safety::Classic));
    let first = live.agreement_on(5, ALL).await;
    let leader = live.cluster.endpoints()[4].address.clone();
    let (relay, address) = Relay::start(leader.clone()).await;
    let asked = live.ctl(&["--endpoints", &address, "elect"]).await;
    assert!(asked.status.success(), "{}", stderr(&asked));
    let recorded = std::mem::take(&mut *relay.recorded.lock().await);
    assert!(!recorded.is_empty());
    let (_, second) = live.agreement_that(ALL, |_, epoch| epoch > first).await;

    // The whole session again, as it was.
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&leader).await.unwrap();
        stream.write_all(&recorded).await.unwrap();
        let mut sink = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(1), stream.read_to_end(&mut sink)).await;
    }
    // Parts of it inside an honest connection.
    // The order was the last frame: one of these ends of the session begins with it.
    for length in (4..=12).chain([recorded.len() / 2, recorded.len()]) {
        *relay.added.lock().await = Some(recorded[recorded.len() - length..].to_vec());
        let honest = live.ctl(&["--endpoints", &address, "status"]).await;
        // It fails or is answered; either is right.
        assert!(honest.status.code().is_some(), "{}", stderr(&honest));
    }
    // The members have taken part in no further election: an honest one gets the next number.
    let taken = live.client(5).await.status().await.unwrap().epoch;
    assert_eq!(taken, second, "the order was carried out again: {}", live.logs());
    assert!(live.ctl(&["elect"]).await.status.success());
    let (_, third) = live.agreement_that(ALL, |_, epoch| epoch > second).await;
    assert_eq!(third - second, second - first, "{}", live.logs());
    live.cluster.stop().await;
}

/// Hellos of a process without the secret: of a client and a member of version 2, of each role of version 4.
fn hellos(cluster: &str) -> Vec<Vec<u8>> {
    let nonce = [0xa5; 32];
    let name = [&[cluster.len() as u8][..], cluster.as_bytes()].concat();
    let client = [&[0, 2, 0, 2, 1][..], &[0; 8], &name, &nonce].concat();
    let facts = [1, 2, 1, 1, 1, 0];
    let member = [&[0, 2, 0, 2, 0][..], &[0; 8], &name, &nonce, &facts].concat();
    let header = |role: u8| [&[0, 4, 0, 4, role, 1, 2, 3, 4][..], &nonce, &[0x5a; 16]].concat();
    let bodies = [client, member, header(0), header(1), header(2)];
    let framed = |body: Vec<u8>| {
        let hello = [&b"conclave"[..], &body].concat();
        [&(hello.len() as u32).to_be_bytes()[..], &hello].concat()
    };
    bodies.into_iter().map(framed).collect()
}

#[tokio::test]
async fn a_stranger_learns_the_versions_of_a_member_and_nothing_else() {
    let mut live = Live::start(&five(Safety::Quorum));
    live.agreement(ALL).await;
    let config = node::config::Config::load(live.cluster.config()).unwrap();
    let named = config.facts().into_iter().flat_map(|(name, value)| [name, value]).chain([config.name.clone()]);
    let secrets: Vec<String> = named.filter(|text| text.len() > 3).collect();
    let member = &live.cluster.endpoints()[0].address;
    let (relay, address) = Relay::start(member.clone()).await;
    client::Client::connect(&address, live.cluster.settings()).await.unwrap();
    // A first message as an honest client has sent it; then those of a process that knows nothing.
    let mut recorded = std::mem::take(&mut *relay.recorded.lock().await);
    recorded.truncate(4 + usize::from(recorded[3]));
    for (number, hello) in std::iter::once(recorded).chain(hellos(&config.name)).enumerate() {
        let mut stream = TcpStream::connect(member).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        let mut heard = Vec::new();
        let reading = tokio::time::timeout(testkit::PATIENCE, stream.read_to_end(&mut heard));
        let _ = reading.await.expect("a member closes the connection of a stranger");
        // Magic, versions, role and the name of a key, in a frame; and the encrypted answer to an honest first message.
        let most = 4 + 8 + 4 + 1 + 4 + if number == 0 { 128 } else { 0 };
        assert!(heard.len() <= most, "hello {number}: {} bytes", heard.len());
        let text = String::from_utf8_lossy(&heard);
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "hello {number}: {text:?}");
    }
}

#[tokio::test]
async fn readers_read_operators_order_and_neither_is_a_member() {
    let mut live = Live::start(&five(Safety::Quorum));
    live.agreement(ALL).await;
    live.voting(ALL).await;
    let before = live.agreement(ALL).await;
    let config = live.cluster.config();
    let directory = config.parent().unwrap().to_path_buf();
    let run = async |secret: &str, command: &[&str]| {
        let file = directory.join(secret);
        let options = ["--config", config.to_str().unwrap(), "--secret-file", file.to_str().unwrap()];
        ctl(&[&options[..], command].concat()).await
    };
    for reading in [&["leader"][..], &["status"], &["history"]] {
        let output = run("reader.secret", reading).await;
        assert!(output.status.success(), "{reading:?}: {}", stderr(&output));
    }
    for order in [&["elect"][..], &["step-down"], &["transfer", "1"]] {
        let output = run("reader.secret", order).await;
        assert_eq!(output.status.code(), Some(8), "{order:?}: {}", stderr(&output));
        assert!(stderr(&output).contains("operator"), "{order:?}: {}", stderr(&output));
    }
    assert_eq!(live.agreement(ALL).await, before, "nothing a reader asked for has happened");

    // A process that knows only the operators' secret is no member.
    for secret in ["reader.secret", "operator.secret"] {
        live.kill(1).await;
        let own = std::fs::read(directory.join("secret")).unwrap();
        let text = std::fs::read_to_string(&config).unwrap();
        let posing = directory.join("posing.toml");
        std::fs::write(&posing, text.replace("\"secret\"", &format!("{secret:?}"))).unwrap();
        assert!(!own.is_empty());
        let data = live.scratch.path().join(format!("posing-{secret}"));
        let output = testkit::volume::run(&[], &live.cluster, &posing, 1, &data).await;
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("secret"), "{}", stderr(&output));
        live.cluster.start(1).unwrap();
        live.agreement(ALL).await;
    }
    let ordered = run("operator.secret", &["transfer", "1"]).await;
    assert!(ordered.status.success(), "{}", stderr(&ordered));
    live.agreement_on(1, ALL).await;
    live.cluster.stop().await;
}
