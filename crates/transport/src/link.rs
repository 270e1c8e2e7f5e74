//! One authenticated connection: a socket, the received part of the next frame, and the output to be written.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use types::Access;

use crate::chaos::{FaultInjector, Faults};
use crate::event::DownReason;
use crate::exchange::SecureChannel;
use crate::frame::{FRAME_MAX_BYTES, FrameError};
use crate::handshake::{Incarnation, PeerId};
use crate::ready::ReadyWaker;
use crate::secure::{Opener, Session, wire_bytes};

/// An output buffer larger than this is freed once it is empty.
const KEEP_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) address: SocketAddr,
    /// What the far end may do.
    pub(crate) access: Access,
    /// There is output, and no write has been tried for it.
    pub(crate) dirty: bool,
    /// The bytes of this link in the total of all clients.
    pub(crate) counted_bytes: usize,
    stream: TcpStream,
    session: Session,
    /// The received part of the next frame, still sealed.
    input: BytesMut,
    /// Sealed frames.
    output: BytesMut,
    /// Writing failed: the remaining input is read, then the link ends.
    broken: Option<DownReason>,
    /// Faults on purpose; almost always none.
    fault_injector: Option<Box<FaultInjector>>,
    ready: Arc<ReadyWaker>,
    waker: Waker,
}

/// The far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Peer { id: PeerId, incarnation: Incarnation, floor: u64 },
    Client,
}

/// How a turn of reading ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// Nothing more to read now; the link is woken when there is input.
    Idle,
    /// There may be more input, but other links are served first.
    More,
    Ended(DownReason),
}

impl Link {
    pub(crate) fn new(
        owner: Owner,
        address: SocketAddr,
        SecureChannel { stream, input, session, access }: SecureChannel,
        ready: Arc<ReadyWaker>,
    ) -> Self {
        Self {
            owner,
            address,
            access,
            dirty: false,
            counted_bytes: 0,
            stream,
            session,
            input,
            output: BytesMut::new(),
            broken: None,
            fault_injector: None,
            waker: Waker::from(Arc::clone(&ready)),
            ready,
        }
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        FaultInjector::apply(&mut self.fault_injector, faults);
    }

    /// Asks for a turn.
    pub(crate) fn wake(&self) {
        self.ready.notify();
    }

    /// Reads at most `reads` times into `scratch` and passes on every complete frame.
    ///
    /// The scratch buffer is shared by all links: an idle link holds no memory, and a length prefix reserves none.
    pub(crate) fn read(&mut self, scratch: &mut [u8], reads: usize, mut take: impl FnMut(Bytes)) -> Turn {
        self.ready.rearm();
        if self.fault_injector.as_ref().is_some_and(|injector| injector.cuts_input()) {
            // Under a cut not even the end of the connection arrives.
            return Turn::Idle;
        }
        if let Err(why) = self.open(&[], &mut take) {
            return Turn::Ended(why);
        }
        for _ in 0..reads {
            let mut buffer = ReadBuf::new(scratch);
            let polled = Pin::new(&mut self.stream).poll_read(&mut Context::from_waker(&self.waker), &mut buffer);
            match polled {
                Poll::Pending => return self.broken.map_or(Turn::Idle, Turn::Ended),
                Poll::Ready(Err(error)) => return Turn::Ended(reason(&error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Turn::Ended(self.end_of_stream()),
                Poll::Ready(Ok(())) => {}
            }
            if let Err(why) = self.open(buffer.filled(), &mut take) {
                return Turn::Ended(why);
            }
        }
        Turn::More
    }

    /// Appends a frame to the output.
    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<(), FrameError> {
        if self.broken.is_none() {
            self.session.sealer.seal(payload, &mut self.output)?;
            if let Some(injector) = &mut self.fault_injector {
                injector.pushed(wire_bytes(payload.len()));
            }
        }
        Ok(())
    }

    /// Whether one more frame would take the output beyond `max_bytes`.
    pub(crate) fn would_exceed(&self, payload_bytes: usize, max_bytes: usize) -> bool {
        self.output.len() + wire_bytes(payload_bytes) > max_bytes
    }

    /// Writes as much as the socket accepts; the link is woken when it accepts more.
    pub(crate) fn write(&mut self) {
        self.dirty = false;
        let written_bytes = self.output.len();
        let held_bytes =
            self.fault_injector.as_mut().map_or(0, |injector| injector.held_bytes(written_bytes, &self.ready));
        while self.output.len() > held_bytes {
            let open = &self.output[..self.output.len() - held_bytes];
            let polled = Pin::new(&mut self.stream).poll_write(&mut Context::from_waker(&self.waker), open);
            match polled {
                Poll::Pending => return,
                Poll::Ready(Ok(0)) => return self.give_up(DownReason::Error),
                Poll::Ready(Ok(written)) => self.output.advance(written),
                Poll::Ready(Err(error)) => return self.give_up(reason(&error)),
            }
        }
        if self.output.is_empty() && written_bytes > KEEP_BYTES {
            self.output = BytesMut::new();
        }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.input.len() + self.output.len()
    }

    /// Further output is lost, but input that has arrived is not.
    fn give_up(&mut self, why: DownReason) {
        self.broken = Some(why);
        self.output = BytesMut::new();
        self.wake();
    }

    /// Opens every complete frame; the beginning of another one waits in `input`.
    fn open(&mut self, arrived: &[u8], take: &mut impl FnMut(Bytes)) -> Result<(), DownReason> {
        if self.input.is_empty() {
            let used = open_all(&mut self.session.opener, arrived, take)?;
            self.input.extend_from_slice(&arrived[used..]);
        } else {
            self.input.extend_from_slice(arrived);
            let used = open_all(&mut self.session.opener, &self.input, take)?;
            self.input.advance(used);
        }
        // An idle link holds no memory.
        if self.input.is_empty() {
            self.input = BytesMut::new();
        }
        Ok(())
    }

    /// A stream that ends inside a frame was cut off: a process that is killed leaves whole frames in the kernel, except
    /// when its far side did not read.
    fn end_of_stream(&self) -> DownReason {
        if self.input.is_empty() { DownReason::Remote } else { DownReason::Protocol }
    }
}

/// Opens the frames at the beginning of `wire` and returns how many bytes they took. A frame that does not open ends the
/// link: the far side did not send it, or not here and now.
fn open_all(opener: &mut Opener, wire: &[u8], take: &mut impl FnMut(Bytes)) -> Result<usize, DownReason> {
    let (mut used, mut opened) = (0, BytesMut::new());
    loop {
        match opener.open(&wire[used..], FRAME_MAX_BYTES, &mut opened) {
            Ok(Some(bytes)) => used += bytes,
            Ok(None) => return Ok(used),
            Err(_) => return Err(DownReason::Protocol),
        }
        take(opened.split().freeze());
    }
}

/// The kernel resets the connection of a dead process with unread input, so a reset counts as a close by the far side.
fn reason(error: &io::Error) -> DownReason {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            DownReason::Remote
        }
        _ => DownReason::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_made_by_the_far_side_counts_as_one() {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, HostUnreachable, TimedOut};
        for kind in [ConnectionReset, ConnectionAborted, BrokenPipe] {
            assert_eq!(reason(&kind.into()), DownReason::Remote);
        }
        for kind in [TimedOut, HostUnreachable] {
            assert_eq!(reason(&kind.into()), DownReason::Error);
        }
    }
}
