//! Who votes without leading, and who does neither.

use client::{Observer, Role};
use testkit::{Live, PATIENCE};

use super::plan;

/// Three members, of whom the last, which would win every election, has this role.
fn with_last(role: &str) -> Live {
    // The lines go to the last member.
    Live::alone_with(&plan(3), &format!("role = \"{role}\"\n"))
}

async fn nobody_leads(live: &mut Live, ids: &[u32]) {
    let free = |id: u32, observer: &Observer| observer.view(id as usize - 1).is_some_and(|view| view.leader.is_none());
    let waited = live.observer.until(|observer| ids.iter().all(|&id| free(id, observer)));
    let in_time = tokio::time::timeout(PATIENCE, waited).await.is_ok();
    assert!(in_time, "{:?}\n{}", live.observer.views(), live.logs());
}

async fn role(live: &Live, id: u32) -> Role {
    live.client(id).await.status().await.unwrap().role
}

#[tokio::test]
async fn a_witness_makes_a_majority_and_never_leads() {
    let mut live = with_last("witness");
    let first = live.agreement_on(2, &[1, 2, 3]).await;
    live.voting(&[1, 2, 3]).await;
    assert_eq!(role(&live, 3).await, Role::Witness);
    live.kill(2).await;
    // Two of three voters, one of them the witness.
    let second = live.agreement_on(1, &[1, 3]).await;
    assert!(second > first, "{first}, then {second}");
    live.kill(1).await;
    live.cluster.start(2).unwrap();
    let third = live.agreement_on(2, &[2, 3]).await;
    assert!(third > second, "{second}, then {third}");
    live.kill(2).await;
    nobody_leads(&mut live, &[3]).await;
}

#[tokio::test]
async fn a_learner_follows_and_its_life_matters_to_nobody() {
    let mut live = with_last("learner");
    let first = live.agreement_on(2, &[1, 2, 3]).await;
    live.voting(&[1, 2]).await;
    assert_eq!(role(&live, 3).await, Role::Learner);
    live.kill(3).await;
    live.cluster.start(3).unwrap();
    assert_eq!(live.agreement_on(2, &[1, 2, 3]).await, first);
    // One of two voters is no majority, whoever else listens.
    live.kill(1).await;
    nobody_leads(&mut live, &[2, 3]).await;
    live.cluster.start(1).unwrap();
    assert!(live.agreement_on(2, &[1, 2, 3]).await > first);
}
