//! Responses: JSON, files, streams, and problems as objects.

use hyper::body::Bytes;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;

use crate::body::Body;

pub(crate) type Answer = Response<Body>;

pub(crate) const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
/// No script, style or request of another origin, and no page of another origin around ours.
const POLICY: &str = "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// An answer that says why there is no other.
#[derive(Debug)]
pub(crate) struct Problem {
    code: StatusCode,
    detail: String,
    /// A header that belongs to this code.
    header: Option<(HeaderName, &'static str)>,
}

/// A problem on the wire: RFC 9457.
#[derive(Serialize)]
struct Details<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(code: StatusCode, detail: impl Into<String>) -> Self {
        Problem { code, detail: detail.into(), header: None }
    }

    pub(crate) fn with(self, name: HeaderName, value: &'static str) -> Self {
        Problem { header: Some((name, value)), ..self }
    }
}

impl From<Problem> for Answer {
    fn from(Problem { code, detail, header }: Problem) -> Self {
        let title = code.canonical_reason().unwrap_or("Error");
        let details = Details { r#type: "about:blank", title, status: code.as_u16(), detail: &detail };
        let mut answer = whole(code, PROBLEM, serde_json::to_vec(&details).unwrap_or_default().into());
        if let Some((name, value)) = header {
            answer.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        answer
    }
}

pub(crate) fn whole(code: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    answer(code, kind, Body::Whole(body))
}

pub(crate) fn text(code: StatusCode, line: String) -> Answer {
    whole(code, "text/plain; charset=utf-8", line.into())
}

pub(crate) fn json(document: &impl Serialize) -> Answer {
    match to_json(document) {
        Ok(body) => whole(StatusCode::OK, JSON, body),
        Err(problem) => problem.into(),
    }
}

/// One line, as `ctl -o json` prints it.
pub(crate) fn to_json(document: &impl Serialize) -> Result<Bytes, Problem> {
    let mut body = serde_json::to_vec(document)
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    body.push(b'\n');
    Ok(body.into())
}

pub(crate) fn stream(chunks: tokio::sync::mpsc::Receiver<Bytes>) -> Answer {
    answer(StatusCode::OK, "text/event-stream", Body::Stream(chunks))
}

fn answer(code: StatusCode, kind: &'static str, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}
