//! A view that changes under a holder, as a transcript: an input of a member, then every message and event that follows.

use algorithms::mutex::suzuki_kasami::SuzukiKasami;

use super::cluster::Cluster;

#[test]
fn a_view_that_changes_under_a_holder() {
    let mut cluster = Cluster::<SuzukiKasami>::led(3);
    cluster.ask_all(&[101, 201], "x");
    cluster.transcript = Some(Vec::new());
    cluster.cut(1, 2);
    cluster.heal(1, 2);
    cluster.run(500);
    cluster.release(101, 1);
    cluster.run(20);
    let lines = cluster.transcript.take().expect("it was wanted").join("\n") + "\n";
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/views/tests/view_change.txt");
    if std::env::var("UPDATE_GOLDEN").is_ok() {
        std::fs::write(file, &lines).expect("the transcript is written");
    }
    let known = std::fs::read_to_string(file).unwrap_or_default();
    assert!(known == lines, "the transcript has changed; UPDATE_GOLDEN=1 writes it anew:\n{lines}");
}
