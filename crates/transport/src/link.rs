//! One authenticated connection: a socket, the received part of the next frame, and the output to be written.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;
use types::Access;

use crate::chaos::{FaultInjector, Faults};
use crate::event::DownReason;
use crate::exchange::SecureChannel;
use crate::frame::{FRAME_MAX_BYTES, FrameError};
use crate::handshake::{Incarnation, PeerId};
use crate::kind::Kind;
use crate::ready::ReadyWaker;
use crate::secure::Session;
use crate::socket;

/// An output buffer larger than this is freed once it is empty.
const KEEP_BYTES: usize = 4 << 10;

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) owner: Owner,
    pub(crate) address: SocketAddr,
    /// What the far end may do.
    pub(crate) access: Access,
    /// The highest version that the far end speaks.
    pub(crate) highest: u16,
    /// There is output, and no write has been tried for it.
    pub(crate) dirty: bool,
    /// A prompt reply is in the output.
    pub(crate) prompt: bool,
    /// The bytes of this link in the total of all clients.
    pub(crate) counted_bytes: usize,
    /// When the last byte was there to be read, or before.
    pub(crate) heard: Instant,
    /// Pings since then.
    pub(crate) pings: u32,
    /// A pong waits in the output. It answers every ping before it: there is never a second one.
    pong: bool,
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

/// What a turn of reading works with, shared by all links: an idle link holds no memory, and a length prefix reserves none.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// When the turn began.
    pub(crate) now: Instant,
    /// One socket read takes at most this much.
    wire: Box<[u8]>,
    /// Payloads are opened here, and the memory is used again once the frames before have been handled.
    opened: BytesMut,
}

impl Scratch {
    pub(crate) const WIRE_BYTES: usize = 64 << 10;
    const OPENED_BYTES: usize = 16 << 10;

    pub(crate) fn new() -> Self {
        let wire = vec![0; Self::WIRE_BYTES].into_boxed_slice();
        Scratch { now: Instant::now(), wire, opened: BytesMut::with_capacity(Self::OPENED_BYTES) }
    }
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
        SecureChannel { stream, input, session, access, highest, .. }: SecureChannel,
        ready: Arc<ReadyWaker>,
    ) -> Self {
        Self {
            owner,
            address,
            access,
            highest,
            dirty: false,
            prompt: false,
            counted_bytes: 0,
            heard: Instant::now(),
            pings: 0,
            pong: false,
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

    /// Reads at most `reads` times and passes on at most `frames` complete frames; more of them wait in the link for its next
    /// turn. A ping is answered at once.
    pub(crate) fn read(
        &mut self,
        scratch: &mut Scratch,
        reads: usize,
        frames: usize,
        mut take: impl FnMut(Bytes),
    ) -> Turn {
        let turn = self.read_some(scratch, reads, frames, &mut take);
        if self.pong {
            self.write();
        }
        turn
    }

    fn read_some(
        &mut self,
        scratch: &mut Scratch,
        reads: usize,
        mut frames: usize,
        take: &mut impl FnMut(Bytes),
    ) -> Turn {
        let Scratch { now, wire, opened } = scratch;
        self.ready.rearm();
        if self.fault_injector.as_ref().is_some_and(|injector| injector.cuts_input()) {
            // Under a cut not even the end of the connection arrives.
            return Turn::Idle;
        }
        for _ in 0..reads {
            match self.open(&mut [], opened, &mut frames, take) {
                Ok(true) => {}
                Ok(false) => return Turn::More,
                Err(why) => return Turn::Ended(why),
            }
            let mut buffer = ReadBuf::new(wire);
            let polled = Pin::new(&mut self.stream).poll_read(&mut Context::from_waker(&self.waker), &mut buffer);
            match polled {
                Poll::Pending => return self.broken.map_or(Turn::Idle, Turn::Ended),
                Poll::Ready(Err(error)) => return Turn::Ended(reason(&error)),
                Poll::Ready(Ok(())) if buffer.filled().is_empty() => return Turn::Ended(self.end_of_stream()),
                Poll::Ready(Ok(())) => (self.heard, self.pings) = (*now, 0),
            }
            match self.open(buffer.filled_mut(), opened, &mut frames, take) {
                Ok(true) => {}
                Ok(false) => return Turn::More,
                Err(why) => return Turn::Ended(why),
            }
        }
        Turn::More
    }

    /// Appends a frame to the output.
    pub(crate) fn push(&mut self, payload: &[u8]) -> Result<(), FrameError> {
        self.push_kind(Kind::Data, payload)
    }

    /// Asks the far side for a sign of life.
    pub(crate) fn ping(&mut self) {
        // An empty frame is never too large.
        let _ = self.push_kind(Kind::Ping, &[]);
        self.pings += 1;
        self.write();
    }

    fn push_kind(&mut self, kind: Kind, payload: &[u8]) -> Result<(), FrameError> {
        if self.broken.is_none() {
            let before = self.output.len();
            self.session.sealer.seal_kind(kind, payload, &mut self.output)?;
            if let Some(injector) = &mut self.fault_injector {
                injector.pushed(self.output.len() - before);
            }
        }
        Ok(())
    }

    /// Whether one more frame would take the output beyond `max_bytes`.
    pub(crate) fn would_exceed(&self, payload_bytes: usize, max_bytes: usize) -> bool {
        self.output.len() + self.session.wire_bytes(payload_bytes) > max_bytes
    }

    /// Output that the socket has not accepted yet.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.output.len()
    }

    /// Writes as much as the socket accepts; the link is woken when it accepts more.
    pub(crate) fn write(&mut self) {
        (self.dirty, self.prompt) = (false, false);
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
        self.pong &= !self.output.is_empty();
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

    /// Opens complete frames; the rest waits in `input`. False if there may be more of them than `frames`, which counts
    /// down.
    fn open(
        &mut self,
        arrived: &mut [u8],
        opened: &mut BytesMut,
        frames: &mut usize,
        take: &mut impl FnMut(Bytes),
    ) -> Result<bool, DownReason> {
        if self.input.is_empty() {
            let used = self.open_some(arrived, opened, frames, take)?;
            self.input.extend_from_slice(&arrived[used..]);
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.extend_from_slice(arrived);
            let used = self.open_some(&mut input, opened, frames, take)?;
            input.advance(used);
            // An idle link holds no memory.
            if !input.is_empty() {
                self.input = input;
            }
        }
        Ok(*frames > 0 || self.input.is_empty())
    }

    /// Opens the frames at the beginning of `wire` and returns how many bytes they took. A frame that does not open ends
    /// the link: the far side did not send it, or not here and now.
    fn open_some(
        &mut self,
        wire: &mut [u8],
        opened: &mut BytesMut,
        frames: &mut usize,
        take: &mut impl FnMut(Bytes),
    ) -> Result<usize, DownReason> {
        opened.clear();
        let mut used = 0;
        while *frames > 0 {
            let next = self.session.opener.open(&mut wire[used..], FRAME_MAX_BYTES, opened);
            let Some((bytes, kind)) = next.map_err(|_| DownReason::Protocol)? else { break };
            used += bytes;
            let payload = opened.split().freeze();
            match kind {
                // No call is empty: such a frame costs its sender nothing and this process an event.
                Kind::Data if payload.is_empty() && self.owner == Owner::Client => return Err(DownReason::Protocol),
                Kind::Data => {
                    *frames -= 1;
                    take(payload);
                }
                Kind::Ping | Kind::Pong if !payload.is_empty() => return Err(DownReason::Protocol),
                Kind::Ping if !self.pong => self.pong = self.push_kind(Kind::Pong, &[]).is_ok(),
                Kind::Ping | Kind::Pong => {}
            }
        }
        if wire.len() > Scratch::OPENED_BYTES {
            // Large frames leave no large buffer behind.
            *opened = BytesMut::with_capacity(Scratch::OPENED_BYTES);
        }
        Ok(used)
    }

    /// A stream that ends inside a frame was cut off: a process that is killed leaves whole frames in the kernel, except
    /// when its far side did not read.
    /// A killed process closes this connection before those of its clients.
    pub(crate) fn numbered_behind_clients(self) -> Self {
        Self { stream: socket::number_behind_clients(self.stream), ..self }
    }

    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        std::os::fd::AsRawFd::as_raw_fd(&self.stream)
    }

    fn end_of_stream(&self) -> DownReason {
        if self.input.is_empty() { DownReason::Remote } else { DownReason::Protocol }
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
