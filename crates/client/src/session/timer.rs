//! When the task of a session looks at the clock although nothing is heard.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use types::since_boot;

/// Moments mostly move away before they come, with every message. So the timer of the runtime stays where it was set, unless
/// the moment is earlier, and the task looks again when it rings.
pub(super) struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// When it rings, since boot.
    set_to: Option<Duration>,
}

impl Timer {
    pub(super) fn new() -> Self {
        Timer { sleep: Box::pin(tokio::time::sleep(Duration::ZERO)), set_to: None }
    }

    /// Rings at this moment, or before.
    pub(super) fn ring_by(&mut self, moment: Option<Duration>) {
        if let Some(moment) = moment.filter(|&moment| self.set_to.is_none_or(|set_to| moment < set_to)) {
            self.set_to = Some(moment);
            self.sleep.as_mut().reset(Instant::now() + moment.saturating_sub(since_boot()));
        }
    }

    /// Never, if there is no such moment. Cancel-safe.
    pub(super) async fn rings(&mut self) {
        match self.set_to {
            Some(_) => self.sleep.as_mut().await,
            None => std::future::pending().await,
        }
        self.set_to = None;
    }
}
