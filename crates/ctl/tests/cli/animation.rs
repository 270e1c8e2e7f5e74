//! The moving picture of the README is made by the command that stands below it.

use testkit::{ctl, done, golden, refused, root, stdout};

const COMMAND: &str = "sim draw --algorithm bully --ids 1,2,3,4,5 --crash 5 --initiators 2 --animate";

#[tokio::test]
async fn the_animation_of_the_readme_is_what_its_command_draws() {
    let words: Vec<&str> = COMMAND.split(' ').collect();
    let output = ctl(&words).await;
    done(&output);
    golden::compare(&root().join("docs/election.svg"), &stdout(&output));
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(readme.contains("docs/election.svg") && readme.contains(COMMAND), "the README names the command");
}

#[tokio::test]
async fn mutual_exclusions_and_large_runs_are_not_animated() {
    let mutex = ["sim", "draw", "--algorithm", "ricart-agrawala", "--nodes", "3", "--animate"];
    refused(&ctl(&mutex).await, 2, &["only elections are animated"]);
    let large = ["sim", "draw", "--algorithm", "bully", "--nodes", "60", "--animate"];
    refused(&ctl(&large).await, 2, &["too many to follow", "--nodes"]);
}
