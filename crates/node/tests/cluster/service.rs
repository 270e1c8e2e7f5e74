//! The service manager: what a member tells it by the socket that it names.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use algorithms::catalog;
use rustix::process::Signal;
use testkit::{Live, Plan};

/// What a service manager hears; the socket is in the file system or in the abstract namespace.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    /// The next message that begins so.
    fn hear(&self, wanted: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|error| panic!("no {wanted}: {error}"));
            let said = String::from_utf8_lossy(&buffer[..length]).into_owned();
            if said.starts_with(wanted) {
                return said;
            }
        }
    }
}

#[tokio::test]
async fn a_member_is_ready_tells_its_role_and_feeds_the_watchdog_until_it_stops() {
    let row = catalog::row(catalog::DEFAULT).unwrap();
    let mut live = Live::start(&Plan::new(3, row));
    live.agreement(&[1, 2, 3]).await;
    let directory = live.cluster.directory().to_owned();
    let socket = UnixDatagram::bind(directory.join("notify")).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let manager = Manager { socket };
    let path = directory.join("notify");
    live.cluster.set_variable(3, "NOTIFY_SOCKET", path.to_str().unwrap()).unwrap();
    live.cluster.set_variable(3, "WATCHDOG_USEC", "200000").unwrap();
    live.cluster.restart(3).await.unwrap();
    manager.hear("READY=1");
    assert!(manager.hear("STATUS=").contains("epoch"));
    for _ in 0..5 {
        manager.hear("WATCHDOG=1");
    }
    // Signals that other daemons give a meaning do not end this one.
    live.cluster.signal(3, Signal::USR2).unwrap();
    live.cluster.signal(3, Signal::USR1).unwrap();
    let said = || live.cluster.log_tail(3, 20).contains("standing, as SIGUSR1 asked").then_some(());
    testkit::until("a line about the member's standing", said).await;
    live.cluster.signal(3, Signal::TERM).unwrap();
    manager.hear("STOPPING=1");
}
