//! The thread on which certificates are checked and signatures are made. One step of such a handshake takes a good part of
//! a millisecond, and the thread of the event loop has heartbeats to send. One thread for all handshakes of the process:
//! strangers cannot take more than one processor, whatever they send.

use std::sync::OnceLock;

use tokio::sync::{mpsc, oneshot};

/// Steps that wait; more of them wait in their tasks, whose number is limited.
const QUEUE: usize = 64;

type Work = Box<dyn FnOnce() + Send>;

/// Runs a step on the thread. `None` if the step panicked.
pub(crate) async fn run<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    static THREAD: OnceLock<Option<mpsc::Sender<Work>>> = OnceLock::new();
    let (done, result) = oneshot::channel();
    let work: Work = Box::new(move || {
        let _ = done.send(step());
    });
    match THREAD.get_or_init(start) {
        Some(thread) => match thread.send(work).await {
            Ok(()) => {}
            Err(mpsc::error::SendError(work)) => work(),
        },
        // No thread: slow is better than not at all.
        None => work(),
    }
    result.await.ok()
}

fn start() -> Option<mpsc::Sender<Work>> {
    let (sender, mut queue) = mpsc::channel::<Work>(QUEUE);
    let serve = move || {
        while let Some(work) = queue.blocking_recv() {
            work();
        }
    };
    std::thread::Builder::new().name("handshakes".to_owned()).spawn(serve).ok().map(|_| sender)
}
