//! Signals that `ctl` does not handle itself: they are passed on to the command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(crate) struct Signals {
    streams: Vec<(SignalKind, Signal)>,
    asked_to_end: bool,
}

/// Signals that ask a process to end.
const ENDING: [fn() -> SignalKind; 4] =
    [SignalKind::hangup, SignalKind::interrupt, SignalKind::quit, SignalKind::terminate];

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let kinds = [
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::window_change(),
        ];
        let streams = kinds.into_iter().map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>()?;
        Ok(Signals { streams, asked_to_end: false })
    }

    /// The number of the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (kind, stream) in &mut self.streams {
                if stream.poll_recv(context).is_ready() {
                    self.asked_to_end |= ENDING.iter().any(|ending| ending() == *kind);
                    return Poll::Ready(kind.as_raw_value());
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Has a signal come that asks a process to end? The command got it too.
    pub(crate) fn asked_to_end(&self) -> bool {
        self.asked_to_end
    }

    /// The next signal that asks a process to end.
    pub(crate) async fn deadly(&mut self) -> i32 {
        loop {
            let number = self.next().await;
            if number != SignalKind::window_change().as_raw_value() {
                return number;
            }
        }
    }
}
