//! Signals that `ctl` does not handle itself: they are passed on to the command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug)]
pub(crate) struct Signals(Vec<(SignalKind, Signal)>);

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
        Ok(Signals(kinds.into_iter().map(|kind| Ok((kind, signal(kind)?))).collect::<io::Result<_>>()?))
    }

    /// The number of the next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> i32 {
        poll_fn(|context| {
            for (kind, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(kind.as_raw_value());
                }
            }
            Poll::Pending
        })
        .await
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
