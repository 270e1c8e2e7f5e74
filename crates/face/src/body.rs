//! Bodies of requests, with a limit; bodies of responses, whole or streamed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::mpsc;

/// The longest body of a request.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 10;
/// A client that takes longer to send its body is not waited for.
const BODY_PATIENCE: Duration = Duration::from_secs(10);

/// The body of a response.
#[derive(Debug)]
pub(crate) enum Body {
    Whole(Bytes),
    Stream(mpsc::Receiver<Bytes>),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            Body::Stream(chunks) => chunks.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// Why a body was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyError {
    TooLarge,
    TooSlow,
    Broken,
}

/// The whole body. No more memory is taken than bytes have arrived.
pub(crate) async fn read(body: Incoming) -> Result<Vec<u8>, BodyError> {
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(BodyError::TooLarge);
    }
    tokio::time::timeout(BODY_PATIENCE, collect(body)).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, BodyError> {
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
        if all.len() + data.len() > BODY_BYTES_MAX {
            return Err(BodyError::TooLarge);
        }
        all.extend_from_slice(&data);
    }
    Ok(all)
}
