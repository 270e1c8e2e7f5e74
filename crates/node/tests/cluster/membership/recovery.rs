//! A majority of the voters is lost for ever.

use std::fs;
use std::process::Stdio;

use client::LedgerKind;
use testkit::{PATIENCE, node_binary};
use tokio::process::Command;
use types::{Epoch, NodeId, Token};

use super::Changing;

/// A start of member 2 with these words; its exit code if it ends by itself, and what it says.
async fn start_with(changing: &Changing, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(changing.live.cluster.config()).args(["--id", "2", "--data-dir"]);
    command.arg(changing.live.cluster.data_directory(2)).args(words).stdout(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output()).await.expect("it ends").unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test]
async fn a_majority_lost_for_ever_is_left_behind_with_larger_tokens_in_a_new_cluster() {
    let mut changing = Changing::start(3, 4);
    let (_, before) = changing.agreement().await;
    changing.live.voting(&[1, 2, 3]).await;
    let named = changing.live.statuses_that(&[1, 2, 3], |all| all.iter().all(|one| one.cluster_id.is_some())).await;
    let old = named[1].cluster_id.clone();
    // A member may know the id a moment before its disk does.
    for id in [1, 2, 3] {
        let directory = changing.live.cluster.data_directory(id);
        let agreed = || testkit::volume::record(&directory)?.quorum().cluster.filter(|mark| mark.agreed);
        testkit::until("the id on the disk", agreed).await;
    }
    changing.live.kill_all(&[1, 2, 3]).await;
    // Nothing is changed by a word that is not complete, or not true.
    for (words, said) in [
        (&["--force-voters", "2", "--lost", "1,3"][..], "--token-above"),
        (&["--force-voters", "2", "--lost", "1", "--token-unknown"], "are a majority"),
        (&["--force-voters", "2,3", "--lost", "1", "--token-unknown"], "names the one member"),
        (&["--force-voters", "2", "--lost", "1,4", "--token-unknown"], "which is no other voter"),
    ] {
        let (code, text) = start_with(&changing, words).await;
        assert_eq!(code, Some(2), "{words:?}: {text}");
        assert!(text.contains(said), "{words:?}: {text}");
    }
    // A resource has seen a token of a leader that this disk has never heard of.
    let token = Token::new(Epoch(before + 1000), 7);
    let mut command = Command::new(node_binary());
    command.arg("--config").arg(changing.live.cluster.config()).args(["--id", "2", "--data-dir"]);
    command.arg(changing.live.cluster.data_directory(2)).args(["--force-voters", "2", "--lost", "1,3"]);
    let log = fs::OpenOptions::new().append(true).open(changing.live.cluster.data_directory(2).join("log")).unwrap();
    let mut forced =
        command.args(["--token-above", &token.to_string()]).stderr(log).kill_on_drop(true).spawn().unwrap();
    changing.inside = [2].into();
    let (leader, epoch) = changing.agreement().await;
    assert!(leader == 2 && Token::leader(Epoch(epoch)) > token, "epoch {epoch}");
    assert!(epoch > before + (1 << 20), "the lost voters may have granted more");
    let status = changing.live.client(2).await.status().await.unwrap();
    assert!(status.cluster_id.is_some() && status.cluster_id != old, "{old:?}");
    let page = changing.live.client(2).await.history().await.unwrap();
    let said = page.entries.iter().filter(|entry| matches!(entry.kind, LedgerKind::Forced(_))).count();
    assert_eq!(said, 1, "{:?}", page.entries);
    forced.kill().await.unwrap();
    changing.live.observer.forget(1);
    // An ordinary start continues, and does not say it again.
    changing.live.cluster.start(2).unwrap();
    let (_, later) = changing.live.agreement_that(&[2], |_, found| found > epoch).await;
    let page = changing.live.client(2).await.history().await.unwrap();
    assert_eq!(page.entries.iter().filter(|entry| matches!(entry.kind, LedgerKind::Forced(_))).count(), 1);
    // A lost member that comes back is of another cluster, and both say so.
    changing.live.cluster.start(1).unwrap();
    let refused = testkit::until("a refusal", || {
        let log = changing.live.cluster.log_tail(1, 100);
        log.lines().find(|line| line.contains("cluster-id")).map(str::to_owned)
    });
    assert!(refused.await.contains("refused"));
    changing.live.kill(1).await;
    // Emptied, the others are added one by one.
    for id in [1, 3] {
        changing.add(id).await;
    }
    let (_, last) = changing.live.agreement_that(&[1, 2, 3], |_, found| found >= later).await;
    assert!(last >= later);
    let members = changing.live.client(2).await.members().await.unwrap();
    assert_eq!(members.known.voters().collect::<Vec<_>>(), [2, 1, 3].map(NodeId));
}
