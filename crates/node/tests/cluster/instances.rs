//! Several elections in one cluster, over the same connections and state files.

use algorithms::catalog;
use client::{Client, Endpoint, InstanceId, MemberStatus, Observer, Safety};
use serde_json::Value;
use testkit::{Live, PATIENCE, Plan, Scratch, refused, stdout};

const ALL: &[u32] = &[1, 2, 3];
/// Beside the default: a ring whose lowest id wins.
const ANOTHER: InstanceId = InstanceId(256);
const LINES: &str = "
[[instances]]
id = 256
algorithm = \"chang-roberts\"
wins = \"lowest\"
";

fn plan(safety: Safety) -> Plan {
    Plan { safety, ..Plan::new(3, catalog::row(catalog::DEFAULT).unwrap()) }
}

fn of_instance(live: &Live) -> Observer {
    let endpoint = |endpoint: Endpoint| Endpoint { instance: ANOTHER, ..endpoint };
    Observer::new(live.cluster.endpoints().into_iter().map(endpoint).collect(), live.cluster.settings())
}

/// Waits until these members agree on a leader of the other election in a later epoch.
async fn agreement(observer: &mut Observer, among: &[u32], after: u64) -> (u32, u64) {
    let judge = |observer: &Observer| {
        let views = among.iter().map(|&id| observer.view(id as usize - 1)).collect::<Option<Vec<_>>>()?;
        client::Verdict::of(&views, &client::Electorate::Anybody).leader().filter(|&(_, epoch)| epoch > after)
    };
    let waited = observer.until(|observer| judge(observer).is_some());
    let in_time = tokio::time::timeout(PATIENCE, waited).await.is_ok();
    assert!(in_time, "no agreement among {among:?}: {:?}", observer.views());
    judge(observer).unwrap()
}

async fn status(live: &Live, id: u32, instance: InstanceId) -> MemberStatus {
    let client: Client = live.client(id).await.of_instance(instance);
    client.status().await.unwrap()
}

#[tokio::test]
async fn two_elections_find_two_leaders_and_survive_the_loss_of_either() {
    for safety in Safety::ALL {
        let mut live = Live::start_with(&plan(safety), LINES);
        let mut other = of_instance(&live);
        let first = live.agreement_on(3, ALL).await;
        let (lowest, epoch) = agreement(&mut other, ALL, 0).await;
        assert_eq!(lowest, 1, "{safety}: the lowest id wins the second election");
        for (instance, algorithm) in [(InstanceId::ELECTION, "bully"), (ANOTHER, "chang-roberts")] {
            let status = status(&live, 2, instance).await;
            assert_eq!((status.algorithm.as_str(), status.instance), (algorithm, instance));
        }
        let both = [status(&live, 2, InstanceId::ELECTION).await, status(&live, 2, ANOTHER).await];
        assert_eq!(both[0].incarnation, both[1].incarnation, "{safety}: one process has one incarnation");

        // The second election's leader dies: the first election has nothing to decide.
        live.kill(1).await;
        let (next, later) = agreement(&mut other, &[2, 3], epoch).await;
        assert_eq!(next, 2, "{safety}");
        assert_eq!(live.agreement(&[2, 3]).await, (3, first), "{safety}: the first election was disturbed");

        // And the first election's leader, after the dead one is back.
        live.cluster.start(1).unwrap();
        agreement(&mut other, ALL, 0).await;
        live.agreement_on(3, ALL).await;
        live.kill(3).await;
        let second = live.agreement_on(2, &[1, 2]).await;
        assert!(second > first, "{safety}: epoch {second} after {first}");
        let (_, last) = agreement(&mut other, &[1, 2], 0).await;
        assert!(last >= later, "{safety}: epochs of the second election went back from {later} to {last}");
    }
}

#[tokio::test]
async fn ctl_asks_and_changes_the_election_that_it_is_told_to() {
    let mut live = Live::start_with(&plan(Safety::Quorum), LINES);
    live.agreement_on(3, ALL).await;
    let mut other = of_instance(&live);
    let (_, epoch) = agreement(&mut other, ALL, 0).await;
    assert_eq!(stdout(&live.ctl(&["leader"]).await), "3\n");
    assert_eq!(stdout(&live.ctl(&["leader", "--instance", "256"]).await), "1\n");
    let changed = live.ctl(&["transfer", "2", "--instance", "256", "-o", "json"]).await;
    let changed: Value = serde_json::from_str(&stdout(&changed)).unwrap();
    assert_eq!((&changed["was"], &changed["leader"]), (&1.into(), &2.into()));
    assert_eq!(agreement(&mut other, ALL, epoch).await.0, 2);
    assert_eq!(stdout(&live.ctl(&["leader"]).await), "3\n", "the cluster's election was not touched");
    let status: Value =
        serde_json::from_str(&stdout(&live.ctl(&["status", "--instance", "256", "-o", "json"]).await)).unwrap();
    assert_eq!((&status["instance"], &status["algorithm"]), (&256.into(), &"chang-roberts".into()));
    refused(&live.ctl(&["leader", "--instance", "300"]).await, 3, &["no instance 300"]);
    refused(&live.ctl(&["history", "--instance", "256"]).await, 2, &["the cluster's own election"]);
}

#[tokio::test]
async fn an_instance_that_is_added_later_shares_the_incarnation_and_keeps_its_own_record() {
    let mut live = Live::start_in(&plan(Safety::Quorum), Scratch::new("live").unwrap(), "");
    let before = live.agreement_on(3, ALL).await;
    live.kill_all(ALL).await;
    let config = std::fs::read_to_string(live.cluster.config()).unwrap();
    std::fs::write(live.cluster.config(), config + LINES).unwrap();
    live.cluster.start_all().unwrap();
    let mut other = of_instance(&live);
    let (_, epoch) = agreement(&mut other, ALL, 0).await;
    assert!(live.agreement_that(ALL, |_, epoch| epoch > before).await.1 > before);
    live.kill_all(ALL).await;
    live.cluster.start_all().unwrap();
    let (_, later) = agreement(&mut other, ALL, epoch).await;
    assert!(later > epoch, "the second election forgot its epochs: {later} after {epoch}");
    let both = [status(&live, 1, InstanceId::ELECTION).await, status(&live, 1, ANOTHER).await];
    assert_eq!((both[0].incarnation, both[1].incarnation), (3, 3));
}
