//! Machines that lose their power: no end of their connections ever reaches the other members.

use algorithms::catalog;
use client::{MemberStatus, Safety};
use testkit::namespaces::Network;
use testkit::{Live, PATIENCE, Plan};

const MEMBERS: u32 = 5;
const ALL: &[u32] = &[1, 2, 3, 4, 5];
/// A follower: the other followers do not watch it.
const LOST: u32 = 2;

#[tokio::test]
async fn a_machine_that_lost_its_power_is_connected_to_all_again_when_it_is_back() {
    for safety in [Safety::Quorum, Safety::Classic] {
        let Some(mut network) = Network::new(MEMBERS) else { return };
        let plan = Plan { safety, ..Plan::new(MEMBERS, catalog::row(catalog::DEFAULT).unwrap()) };
        let mut live = Live::on_machines(&plan, &network);
        live.cluster.start_all().unwrap();
        live.agreement_on(5, ALL).await;
        let whole = |status: &MemberStatus| status.leader == Some(5) && status.peers.iter().all(|peer| peer.connected);
        let complete = |all: &[MemberStatus]| all.iter().all(whole);
        live.statuses_that(ALL, complete).await;

        network.unplug(LOST);
        live.kill(LOST).await;
        network.power_off(LOST);
        live.agreement_on(5, &[1, 3, 4, 5]).await;
        network.power_on(LOST).unwrap();
        live.cluster.start(LOST).unwrap();
        let pid = live.cluster.pid(LOST);
        let all = live.statuses_that(ALL, complete).await;
        assert!(all.iter().any(|status| status.id == LOST && status.incarnation == 2), "{all:?}");
        assert_eq!(live.cluster.pid(LOST), pid, "{safety:?}: the process ended\n{}", live.logs());
        let status = tokio::time::timeout(PATIENCE, live.json(&["status"])).await.unwrap();
        assert_eq!((&status.0["verdict"], status.1), (&"AGREED".into(), Some(0)), "{safety:?}: {}", status.0);
        live.cluster.stop().await;
    }
}
