//! Frames of a connection with certificates. A frame is a four-byte big-endian length in clear and that many bytes of TLS
//! records. Inside stand the length of the payload, the [`Kind`] and the payload, so frames can be neither joined nor split
//! by changing the lengths in clear. TLS numbers its records: one that was changed, left out, repeated, moved or sent back
//! does not open.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BufMut, BytesMut};
use rustls::Error;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::frame::{FRAME_MAX_BYTES, FrameError, KIND_BYTES, PREFIX_BYTES};
use crate::kind::Kind;
use crate::tls;

/// The largest content of a record, and what a record adds to it: a header, the kind of its content, a tag.
const RECORD_MAX_BYTES: usize = 1 << 14;
const RECORD_EXTRA_BYTES: usize = 5 + 1 + 16;
/// A new key for one direction; the far side may ask for one at any time, and the answer travels with the next frame.
const KEY_UPDATE_BYTES: usize = RECORD_EXTRA_BYTES + 5;
/// The payload's length and the kind.
const INSIDE_BYTES: usize = PREFIX_BYTES + KIND_BYTES;
/// A larger buffer is not kept.
const KEEP_BYTES: usize = 4 << 10;

/// How every record of a frame begins.
const RECORD_BEGINS: [u8; 3] = [23, 3, 3];
const RECORD_HEADER_BYTES: usize = 5;

/// One side of a TLS connection.
pub(crate) struct Connection {
    side: Side,
    /// After an error it is not used any more: rustls keeps positions in bytes that are gone then.
    broken: bool,
}

enum Side {
    Dialler(UnbufferedClientConnection),
    Acceptor(UnbufferedServerConnection),
}

/// How far one step has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// There may be more to do with the same bytes.
    Again,
    /// More bytes of the handshake are needed.
    Blocked,
    /// Frames may be sent; all bytes that make a whole record were read.
    Ready,
    /// The far side has ended the session.
    Closed,
}

impl Connection {
    pub(crate) fn dialler(connection: UnbufferedClientConnection) -> Self {
        Self { side: Side::Dialler(connection), broken: false }
    }

    pub(crate) fn acceptor(connection: UnbufferedServerConnection) -> Self {
        Self { side: Side::Acceptor(connection), broken: false }
    }

    /// One step: reads records out of `wire`, which is decrypted in place, and returns how many bytes were used. Records to
    /// send go to `out`, received content to `opened`. `plain` is sealed as soon as that is possible. The next call must begin
    /// with the bytes that were not used.
    pub(crate) fn process(
        &mut self,
        wire: &mut [u8],
        plain: &mut Option<&[u8]>,
        out: &mut BytesMut,
        opened: &mut BytesMut,
    ) -> (usize, Result<Progress, Error>) {
        match &mut self.side {
            Side::Dialler(dialler) => handle(dialler.process_tls_records(wire), plain, out, opened),
            Side::Acceptor(acceptor) => handle(acceptor.process_tls_records(wire), plain, out, opened),
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        match &self.side {
            Side::Dialler(dialler) => dialler.is_handshaking(),
            Side::Acceptor(acceptor) => acceptor.is_handshaking(),
        }
    }

    pub(crate) fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        match &self.side {
            Side::Dialler(dialler) => dialler.peer_certificates(),
            Side::Acceptor(acceptor) => acceptor.peer_certificates(),
        }
    }

    /// Does one thing, unless an earlier one has failed.
    fn unless_broken<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, FrameError>) -> Result<T, FrameError> {
        if self.broken {
            return Err(FrameError::NotAuthentic);
        }
        let done = act(self);
        self.broken = done.is_err();
        done
    }
}

fn handle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Option<&[u8]>,
    out: &mut BytesMut,
    opened: &mut BytesMut,
) -> (usize, Result<Progress, Error>) {
    let UnbufferedStatus { discard, state, .. } = status;
    (discard, state.and_then(|state| handle_state(state, plain, out, opened)))
}

fn handle_state<Data>(
    state: ConnectionState<'_, '_, Data>,
    plain: &mut Option<&[u8]>,
    out: &mut BytesMut,
    opened: &mut BytesMut,
) -> Result<Progress, Error> {
    let full = || Error::General("a buffer that was measured is too small".into());
    Ok(match state {
        ConnectionState::EncodeTlsData(mut data) => {
            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                let start = out.len();
                out.put_bytes(0, size.required_size);
                data.encode(&mut out[start..]).map_err(|_| full())?;
            }
            Progress::Again
        }
        ConnectionState::TransmitTlsData(data) => {
            data.done();
            Progress::Again
        }
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                opened.extend_from_slice(record?.payload);
            }
            Progress::Again
        }
        ConnectionState::WriteTraffic(mut traffic) => {
            if let Some(plain) = plain.take() {
                let start = out.len();
                out.put_bytes(0, records_bytes(plain.len()) + KEY_UPDATE_BYTES);
                let written = match traffic.encrypt(plain, &mut out[start..]) {
                    Err(EncryptError::InsufficientSize(size)) => {
                        out.put_bytes(0, size.required_size);
                        traffic.encrypt(plain, &mut out[start..])
                    }
                    written => written,
                };
                out.truncate(start + written.map_err(|_| full())?);
            }
            Progress::Ready
        }
        ConnectionState::BlockedHandshake => Progress::Blocked,
        _ => Progress::Closed,
    })
}

/// How many bytes a frame takes on the wire.
pub(crate) fn wire_bytes(payload_bytes: usize) -> usize {
    let inside = INSIDE_BYTES + payload_bytes;
    PREFIX_BYTES + records_bytes(inside)
}

fn records_bytes(plain_bytes: usize) -> usize {
    plain_bytes + plain_bytes.div_ceil(RECORD_MAX_BYTES) * RECORD_EXTRA_BYTES
}

/// The connection is shared by both directions: TLS answers a new key of one direction in the other.
#[derive(Clone)]
struct Shared(Arc<Mutex<Connection>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seals what is sent.
pub(crate) struct Sealer {
    shared: Shared,
    /// The beginning of a frame, as it is sealed.
    plain: Vec<u8>,
}

/// Opens what is received.
pub(crate) struct Opener {
    shared: Shared,
}

pub(super) fn halves(connection: Connection) -> (Sealer, Opener) {
    let shared = Shared(Arc::new(Mutex::new(connection)));
    (Sealer { shared: shared.clone(), plain: Vec::new() }, Opener { shared })
}

impl Sealer {
    pub(super) fn seal_kind(&mut self, kind: Kind, payload: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
        if payload.len() > FRAME_MAX_BYTES {
            return Err(FrameError::TooLarge { bytes: payload.len(), max_bytes: FRAME_MAX_BYTES });
        }
        let start = out.len();
        out.reserve(wire_bytes(payload.len()) + KEY_UPDATE_BYTES);
        out.put_u32(0);
        // The first record has the beginning of the payload; the rest is sealed from where it is.
        let (first, rest) = payload.split_at(payload.len().min(RECORD_MAX_BYTES - INSIDE_BYTES));
        self.plain.clear();
        self.plain.put_u32(payload.len() as u32);
        self.plain.push(kind as u8);
        self.plain.extend_from_slice(first);
        let mut connection = self.shared.lock();
        for plain in [self.plain.as_slice(), rest] {
            if plain.is_empty() {
                continue;
            }
            if let Err(error) = connection.unless_broken(|connection| seal(connection, plain, out)) {
                out.truncate(start);
                return Err(error);
            }
        }
        let sealed = (out.len() - start - PREFIX_BYTES) as u32;
        out[start..start + PREFIX_BYTES].copy_from_slice(&sealed.to_be_bytes());
        if self.plain.capacity() > KEEP_BYTES {
            self.plain = Vec::new();
        }
        Ok(())
    }
}

fn seal(connection: &mut Connection, plain: &[u8], out: &mut BytesMut) -> Result<(), FrameError> {
    let (mut plain, mut opened) = (Some(plain), BytesMut::new());
    loop {
        match connection.process(&mut [], &mut plain, out, &mut opened).1 {
            Ok(Progress::Again) => {}
            Ok(Progress::Ready) if opened.is_empty() => return Ok(()),
            Ok(_) => return Err(FrameError::NotAuthentic),
            Err(error) => return Err(broken(&error)),
        }
    }
}

impl Opener {
    /// See [`Opener::open`](super::Opener::open).
    pub(super) fn open(
        &mut self,
        wire: &mut [u8],
        max_bytes: usize,
        opened: &mut BytesMut,
    ) -> Result<Option<(usize, Kind)>, FrameError> {
        let Some((prefix, rest)) = wire.split_first_chunk_mut::<PREFIX_BYTES>() else { return Ok(None) };
        let bytes = u32::from_be_bytes(*prefix) as usize;
        if bytes > wire_bytes(max_bytes) + KEY_UPDATE_BYTES {
            return Err(FrameError::TooLarge { bytes, max_bytes });
        }
        let Some(records) = rest.get_mut(..bytes) else { return Ok(None) };
        self.shared.lock().unless_broken(|connection| open_records(connection, records, opened))?;
        let inside = opened.first_chunk::<PREFIX_BYTES>().map(|length| u32::from_be_bytes(*length) as usize);
        if inside.is_none_or(|inside| opened.len() != INSIDE_BYTES + inside) {
            return Err(FrameError::NotAuthentic);
        }
        let kind = Kind::from_byte(opened[PREFIX_BYTES]).ok_or(FrameError::NoKind)?;
        opened.advance(INSIDE_BYTES);
        Ok(Some((PREFIX_BYTES + bytes, kind)))
    }

    pub(super) fn again(&self) -> Opener {
        Opener { shared: self.shared.clone() }
    }
}

fn open_records(connection: &mut Connection, records: &mut [u8], opened: &mut BytesMut) -> Result<(), FrameError> {
    if !are_records(records) {
        return Err(FrameError::NotAuthentic);
    }
    let (mut at, mut out) = (0, BytesMut::new());
    while at < records.len() {
        let (used, progress) = connection.process(&mut records[at..], &mut None, &mut out, opened);
        at += used;
        match progress {
            Ok(Progress::Again) => {}
            Ok(Progress::Ready) if at == records.len() => {}
            Ok(_) => return Err(FrameError::NotAuthentic),
            Err(error) => return Err(broken(&error)),
        }
    }
    // No record of a frame is answered.
    if out.is_empty() { Ok(()) } else { Err(FrameError::NotAuthentic) }
}

/// Whole records of frames and nothing else. TLS does not protect the first bytes of a record, which have no meaning.
fn are_records(mut bytes: &[u8]) -> bool {
    while let Some((header, rest)) = bytes.split_first_chunk::<RECORD_HEADER_BYTES>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let Some(behind) = rest.get(length..).filter(|_| header.starts_with(&RECORD_BEGINS)) else { return false };
        bytes = behind;
    }
    bytes.is_empty()
}

/// An alert is the only thing that a far side says about a handshake that it did not accept.
fn broken(error: &Error) -> FrameError {
    match error {
        Error::AlertReceived(_) => FrameError::Refused(tls::sentence(error)),
        _ => FrameError::NotAuthentic,
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.side {
            Side::Dialler(_) => "Connection(dialler)",
            Side::Acceptor(_) => "Connection(acceptor)",
        })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(tls)")
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(tls)")
    }
}
