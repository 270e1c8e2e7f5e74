//! Connections of HTTP clients: accepted, limited, served.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use client::Members;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::answer::{Answer, Problem, json, text, whole};
use crate::body::{self, BodyError};
use crate::door::{Door, Needs, Tokens};
use crate::events::Events;
use crate::lock_sessions::LockSessions;
use crate::own::{Own, Shown};
use crate::reads::Reads;
use crate::routes::{GET, Route, What, is_get};
use crate::stall::Stall;
use crate::{assets, metrics, openapi, orders};

/// A connection whose next request is not complete by then is closed: slow headers and idle clients.
const REQUEST_PATIENCE: Duration = Duration::from_secs(10);
/// A client that reads nothing for so long, while bytes wait for it, is closed.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Buffers of one connection; also the longest head of a request.
const BUFFER_BYTES: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// After an error of accept: out of descriptors, mostly.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// What the face runs with.
#[derive(Debug)]
pub struct Settings {
    /// `host:port` of the config.
    pub http: String,
    pub tokens: Tokens,
    /// The members, and the keys by which this process proves itself to them.
    pub members: Members,
    /// Connections at one time.
    pub connections_max: usize,
}

/// All that requests share.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) door: Door,
    pub(crate) own: Own,
    pub(crate) reads: Reads,
    pub(crate) events: Arc<Events>,
    pub(crate) lock_sessions: LockSessions,
}

/// Serves for ever.
pub async fn serve(
    settings: Settings,
    shown: Arc<dyn Shown>,
    listener: std::net::TcpListener,
) -> std::io::Result<Infallible> {
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let door = Door::new(&settings.http, settings.tokens, listener.local_addr()?.ip());
    let reads = Reads::new(settings.members);
    let events = Arc::new(Events::new()?);
    tokio::spawn(Arc::clone(&events).gather(reads.clone()));
    tokio::spawn(Arc::clone(&events).tell());
    let own = Own { shown };
    let face = Arc::new(Face { door, own, reads, events, lock_sessions: LockSessions::default() });
    let slots = Arc::new(Semaphore::new(settings.connections_max));
    loop {
        match listener.accept().await {
            // Without a slot the connection is closed at once.
            Ok((socket, peer)) => {
                if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
                    tokio::spawn(converse(Arc::clone(&face), socket, peer, slot));
                }
            }
            Err(error) => {
                tracing::debug!(%error, "an HTTP connection was not accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn converse(face: Arc<Face>, socket: TcpStream, peer: SocketAddr, _slot: OwnedSemaphorePermit) {
    let _ = socket.set_nodelay(true);
    let service = service_fn(move |request| {
        let face = Arc::clone(&face);
        async move { Ok::<_, Infallible>(face.answer(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_PATIENCE)
        .max_buf_size(BUFFER_BYTES)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(Stall::new(socket, WRITE_PATIENCE)), service);
    if let Err(error) = connection.await {
        tracing::debug!(%peer, %error, "an HTTP connection ended");
    }
}

impl Face {
    async fn answer(&self, peer: SocketAddr, request: Request<Incoming>) -> Answer {
        self.route(peer, request).await.unwrap_or_else(Answer::from)
    }

    async fn route(&self, peer: SocketAddr, request: Request<Incoming>) -> Result<Answer, Problem> {
        let (head, body) = request.into_parts();
        let path = head.uri.path();
        if let Some(asset) = assets::find(path) {
            self.door.admit(Needs::Host, peer, &head)?;
            if !is_get(&head.method) {
                return Err(not_allowed(GET));
            }
            let is_page = path == assets::PAGE;
            return Ok(if is_page { self.page(asset, peer, &head).await } else { assets::answer(asset) });
        }
        let Some(route) = Route::find(path) else {
            let detail = format!("no route {path}: /v1/openapi.json lists all");
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        };
        if !route.takes(&head.method) {
            return Err(not_allowed(route.allowed()));
        }
        self.door.admit(route.needs, peer, &head)?;
        if route.needs == Needs::Order {
            check_kind(head.headers.get(header::CONTENT_TYPE))?;
            let body = body::read(body).await.map_err(unread)?;
            return match route.what {
                What::LockOpen | What::LockKeepAlive | What::LockAcquire | What::LockRelease => {
                    self.lock_sessions.carry_out(route.what, &body, &self.reads).await
                }
                what => orders::carry_out(what, &body, peer, &self.reads).await,
            };
        }
        self.show(route.what, &head).await
    }

    /// The page is for all; the state in it for those who may read it.
    async fn page(&self, asset: &'static assets::Asset, peer: SocketAddr, head: &Parts) -> Answer {
        let status = match self.door.admit(Needs::Read, peer, head) {
            Ok(()) => self.reads.at_once(What::Status).await,
            Err(_) => None,
        };
        assets::page(asset, status.as_ref())
    }

    async fn show(&self, what: What, head: &Parts) -> Result<Answer, Problem> {
        match what {
            What::Leader => Ok(self.leader()),
            What::Livez => Ok(self.livez().await),
            What::Readyz => Ok(self.readyz().await),
            What::Metrics => Ok(whole(StatusCode::OK, metrics::KIND, metrics::text(&self.own).await.into())),
            What::Events => self.events.subscribe(head.method == Method::HEAD, head.headers.get("last-event-id")),
            What::OpenApi => Ok(json(&openapi::document())),
            what => self.reads.answer(what).await,
        }
    }

    /// The lease is compared with the clock at this moment, whatever the event loop does.
    fn leader(&self) -> Answer {
        let standing = self.own.shown.standing();
        let (id, epoch) = (self.own.shown.status().id, standing.epoch);
        match standing.leader {
            Some(leader) if leader.0 == id => text(StatusCode::OK, format!("{id} leads in epoch {epoch}\n")),
            Some(leader) => text(
                StatusCode::SERVICE_UNAVAILABLE,
                format!("{id} does not lead: {leader} does, in epoch {epoch}, as far as it knows\n"),
            ),
            None => text(StatusCode::SERVICE_UNAVAILABLE, format!("{id} does not lead, and knows no leader\n")),
        }
    }

    async fn livez(&self) -> Answer {
        match self.own.figures().await {
            Some(_) => text(StatusCode::OK, "the event loop answers\n".into()),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "the event loop does not answer\n".into()),
        }
    }

    async fn readyz(&self) -> Answer {
        let no = |why: &str| text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"));
        if self.own.figures().await.is_none() {
            return no("the event loop does not answer");
        }
        let paused = self.own.shown.status().maintenance.paused;
        match self.own.shown.standing().leader {
            Some(leader) if paused => text(StatusCode::OK, format!("ready: {leader} leads, PAUSED\n")),
            Some(leader) => text(StatusCode::OK, format!("ready: {leader} leads\n")),
            None if paused => no("this member knows no leader, and the cluster is PAUSED"),
            None => no("this member knows no leader"),
        }
    }
}

fn not_allowed(allowed: &'static str) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("this route takes {allowed}")).with(header::ALLOW, allowed)
}

/// A page of another origin cannot send this kind without asking first.
fn check_kind(kind: Option<&header::HeaderValue>) -> Result<(), Problem> {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let bare = kind.split(';').next().unwrap_or_default().trim();
    if bare.eq_ignore_ascii_case(crate::answer::JSON) {
        return Ok(());
    }
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/json"))
}

fn unread(error: BodyError) -> Problem {
    match error {
        BodyError::TooLarge => {
            let detail = format!("a body has at most {} bytes", body::BODY_BYTES_MAX);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        }
        BodyError::TooSlow => Problem::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
        BodyError::Broken => Problem::new(StatusCode::BAD_REQUEST, "the body is not complete"),
    }
}
