//! E13: leadership is given away only when no child process acts on it any more, or the children were given up.

use member::Cause;

use super::{Announced, Invariant, Scene};

pub(crate) struct ChildrenStopFirst;

impl Invariant for ChildrenStopFirst {
    fn announced(&mut self, announced: &Announced, scene: &Scene<'_>) -> Result<(), String> {
        let given_away = matches!(announced.cause, Cause::SteppedDown | Cause::HandedOver);
        if !given_away || !announced.child {
            return Ok(());
        }
        let (who, cause) = (scene.members[announced.node], announced.cause.name());
        Err(format!("{who} gave leadership away ({cause}) while its child still acts"))
    }
}
