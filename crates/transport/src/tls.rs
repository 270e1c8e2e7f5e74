//! The TLS 1.3 handshake with certificates of both sides, as steps without sockets: three flights of records, from a
//! [`Certificate`] of each side to a [`Session`].
//!
//! What each flight proves:
//! - The dialler's first flight proves nothing. It costs the acceptor a key exchange and a signature.
//! - The acceptor's flight proves the acceptor: its certificate, and a signature over both fresh keys.
//! - The dialler's second flight proves the dialler in the same way; a recorded one fits no other handshake.
//!
//! The headers in clear are no part of TLS. The dialler's first frame in the session repeats both of them, and the
//! acceptor compares: nothing else is believed or told before.

use bytes::BytesMut;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::{AlertDescription, CertificateError, Error};

use crate::certificate::{Certificate, Holder, MEMBER};
use crate::handshake::{Refusal, RefuseCode};
use crate::secure::Session;
use crate::secure::tls::{Connection, Progress};

/// Why a flight made no session, and what to tell the far side: an alert, as records.
#[derive(Debug)]
pub(crate) struct NoSession {
    pub(crate) refusal: Refusal,
    pub(crate) alert: Vec<u8>,
}

/// One side inside the handshake.
#[derive(Debug)]
pub(crate) struct Shaking(Connection);

/// Begins as the dialler: the first flight.
pub(crate) fn dial(own: &Certificate) -> Result<(Shaking, Vec<u8>), NoSession> {
    let local = |error: Error| NoSession { refusal: refusal(&error), alert: Vec::new() };
    let name = ServerName::try_from(MEMBER).map_err(|_| local(Error::General("no name of members".into())))?;
    let connection = UnbufferedClientConnection::new(own.dial(), name).map_err(local)?;
    let mut shaking = Shaking(Connection::dialler(connection));
    let (flight, _) = shaking.step(&mut [])?;
    Ok((shaking, flight))
}

/// Begins as the acceptor: reads the first flight and makes the answer.
pub(crate) fn accept(own: &Certificate, flight: &mut [u8]) -> Result<(Shaking, Vec<u8>), NoSession> {
    let local = |error: Error| NoSession { refusal: refusal(&error), alert: Vec::new() };
    let connection = UnbufferedServerConnection::new(own.accept()).map_err(local)?;
    let mut shaking = Shaking(Connection::acceptor(connection));
    let (answer, _) = shaking.step(flight)?;
    Ok((shaking, answer))
}

impl Shaking {
    /// Reads the far side's last flight: both sides are proven as far as this side can tell. The dialler has a flight to
    /// send; the acceptor has none.
    pub(crate) fn finish(mut self, flight: &mut [u8]) -> Result<(Session, Holder, Vec<u8>), NoSession> {
        let (answer, ready) = self.step(flight)?;
        let ours = |text: &str| NoSession { refusal: Refusal::new(RefuseCode::Certificate, text), alert: Vec::new() };
        if !ready || self.0.is_handshaking() {
            return Err(ours("the far side's part of the handshake is incomplete"));
        }
        let certificate = self.0.peer_certificates().and_then(<[CertificateDer<'_>]>::first);
        let holder = certificate.and_then(Holder::of).ok_or_else(|| {
            ours("the far side's certificate has the names of nobody here: neither a member, an operator nor a reader")
        })?;
        Ok((Session::by_certificate(self.0), holder, answer))
    }

    /// Reads all of a flight and makes the next one. True if frames may be sent now.
    fn step(&mut self, flight: &mut [u8]) -> Result<(Vec<u8>, bool), NoSession> {
        let (mut out, mut opened) = (BytesMut::new(), BytesMut::new());
        let mut at = 0;
        let error = loop {
            let (used, progress) = self.0.process(&mut flight[at..], &mut None, &mut out, &mut opened);
            at += used;
            match progress {
                Ok(Progress::Again) => {}
                Ok(Progress::Blocked) if at == flight.len() => return Ok((out.to_vec(), false)),
                Ok(Progress::Ready) if at == flight.len() && opened.is_empty() => return Ok((out.to_vec(), true)),
                // Frames come in frames of their own, and a flight is whole.
                Ok(_) => break Error::General("a flight of the handshake is not whole, or bytes follow it".into()),
                Err(error) => break error,
            }
        };
        Err(NoSession { refusal: refusal(&error), alert: self.alert(&mut flight[at..]) })
    }

    /// The alert that rustls has made, if any.
    fn alert(&mut self, unread: &mut [u8]) -> Vec<u8> {
        let (mut out, mut opened) = (BytesMut::new(), BytesMut::new());
        let _ = self.0.process(unread, &mut None, &mut out, &mut opened);
        out.to_vec()
    }
}

fn refusal(error: &Error) -> Refusal {
    Refusal::new(RefuseCode::Certificate, sentence(error))
}

/// An error of TLS in words, the same for handshakes and frames.
pub(crate) fn sentence(error: &Error) -> String {
    match error {
        Error::AlertReceived(alert) => format!("the far side refused this side's certificate: {}", complaint(*alert)),
        Error::InvalidCertificate(fault) => format!("refused the far side's certificate: {}", fault_in_words(fault)),
        Error::NoCertificatesPresented => "the far side showed no certificate".to_owned(),
        other => format!("no TLS handshake: {other}"),
    }
}

fn complaint(alert: AlertDescription) -> String {
    match alert {
        AlertDescription::CertificateExpired => EXPIRED.to_owned(),
        // The second one: an authority of the same name, with another key.
        AlertDescription::UnknownCA | AlertDescription::DecryptError => FOREIGN.to_owned(),
        AlertDescription::BadCertificate => "it is damaged, or has not the names that are needed".to_owned(),
        AlertDescription::UnsupportedCertificate => "it is not for this purpose".to_owned(),
        AlertDescription::CertificateRequired => "none was shown".to_owned(),
        other => format!("{other:?}"),
    }
}

const EXPIRED: &str = "it has expired or is not valid yet, by the refusing side's clock";
const FOREIGN: &str = "no authority that the refusing side trusts has signed it";

fn fault_in_words(fault: &CertificateError) -> String {
    use CertificateError as Fault;
    match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "it has expired, by this side's clock".to_owned(),
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "it is not valid yet, by this side's clock".to_owned(),
        Fault::UnknownIssuer | Fault::BadSignature => "no authority that this side trusts has signed it".to_owned(),
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => "it is not that of a member".to_owned(),
        Fault::InvalidPurpose | Fault::InvalidPurposeContext { .. } => "it is not for this purpose".to_owned(),
        other => format!("{other}"),
    }
}

#[cfg(test)]
#[path = "tls_tests.rs"]
mod tests;
