//! Signals to this process. The event loop looks for them in every turn, so it looks at one channel: a look at each kind of
//! signal makes a future of its own.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Signal {
    /// Leave the cluster and end.
    End,
    /// Read the config, secrets and certificates again.
    Reload,
    /// Log how this member stands.
    Tell,
}

/// A second signal of a kind that waits already says nothing new.
const WAITING_MAX: usize = 3;

/// From now on signals come out here. Must be called inside a runtime.
pub(super) fn listen() -> io::Result<mpsc::Receiver<Signal>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut user = signal(SignalKind::user_defined1())?;
    let (out, signals) = mpsc::channel(WAITING_MAX);
    tokio::spawn(async move {
        loop {
            let signal = tokio::select! {
                _ = terminate.recv() => Signal::End,
                _ = interrupt.recv() => Signal::End,
                _ = hangup.recv() => Signal::Reload,
                _ = user.recv() => Signal::Tell,
                () = out.closed() => return,
            };
            if out.send(signal).await.is_err() {
                return;
            }
        }
    });
    Ok(signals)
}
