//! What the face knows of its own process.

use std::sync::Arc;
use std::time::Duration;

use client::{MemberStatus, Standing};
use tokio::sync::oneshot;

use crate::metrics::Figures;

/// The visible state of the process: read by this thread, compared with the clock by the reader, never asked of the event
/// loop.
pub trait Shown: Send + Sync + std::fmt::Debug + 'static {
    /// The standing in the cluster's election; a leadership only while its lease runs.
    fn standing(&self) -> Standing;
    /// How long the lease still runs, where leadership has one.
    fn lease_left(&self) -> Option<Duration>;
    fn status(&self) -> MemberStatus;
    /// Asks the event loop for what it counts; false if it has questions enough to answer.
    fn ask(&self, answer: oneshot::Sender<Figures>) -> bool;
}

/// The process behind the face.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) shown: Arc<dyn Shown>,
}

/// How long the event loop may take to answer before it counts as stuck.
const LOOP_PATIENCE: Duration = Duration::from_secs(5);

impl Own {
    /// What the event loop counts; `None` if it does not answer.
    pub(crate) async fn figures(&self) -> Option<Figures> {
        let (answer, told) = oneshot::channel();
        if !self.shown.ask(answer) {
            return None;
        }
        tokio::time::timeout(LOOP_PATIENCE, told).await.ok()?.ok()
    }
}
