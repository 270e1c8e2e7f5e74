//! Who may ask for what. Every request passes [`Door::admit`] before anything acts on it.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::{self, HeaderMap, HeaderName};
use hyper::http::request::Parts;
use hyper::{StatusCode, Version};

use crate::answer::Problem;

/// What a route asks of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Needs {
    /// Open to all, under any name of this machine: load balancers and service managers ask.
    Nothing,
    /// Open to all: files of the dashboard and metrics, nothing of a secret in them.
    Host,
    /// The token, or a client on this machine.
    Read,
    /// As `Read`, and the stream is for pages of this origin alone.
    Stream,
    /// The token.
    Order,
}

/// The tokens that clients show, each of which allows orders. They may be replaced while the face serves.
#[derive(Clone, Debug, Default)]
pub struct Tokens(Arc<RwLock<Vec<String>>>);

impl Tokens {
    pub fn new(tokens: Vec<String>) -> Self {
        Tokens(Arc::new(RwLock::new(tokens)))
    }

    /// For requests from now on. Returns the tokens before.
    pub fn replace(&self, tokens: Vec<String>) -> Vec<String> {
        std::mem::replace(&mut self.0.write().unwrap_or_else(PoisonError::into_inner), tokens)
    }

    /// Whether there are any, and whether this is one of them: all are compared, so that the time tells nothing.
    fn know(&self, given: Option<&str>) -> (bool, bool) {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let known = given.is_some_and(|given| tokens.iter().fold(false, |known, token| known | same(given, token)));
        (!tokens.is_empty(), known)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// The host name of `http` in the config.
    name: Option<String>,
    tokens: Tokens,
    /// Does the face listen on loopback alone?
    on_loopback: bool,
}

/// A proxy on this machine speaks for a client elsewhere.
const OF_PROXIES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

impl Door {
    pub(crate) fn new(http: &str, tokens: Tokens, bound: IpAddr) -> Self {
        let host = http.rsplit_once(':').map_or(http, |(host, _)| host);
        Door { name: Some(host.to_ascii_lowercase()), tokens, on_loopback: bound.is_loopback() }
    }

    pub(crate) fn admit(&self, needs: Needs, peer: SocketAddr, request: &Parts) -> Result<(), Problem> {
        if needs == Needs::Nothing {
            return Ok(());
        }
        let host = self.check_host(request)?;
        if matches!(needs, Needs::Order | Needs::Stream) {
            check_origin(&request.headers, host)?;
        }
        match needs {
            Needs::Nothing | Needs::Host => Ok(()),
            Needs::Read | Needs::Stream => self.check_reader(peer, &request.headers),
            Needs::Order => self.check_operator(&request.headers),
        }
    }

    /// A page of another site may have a name that leads to this machine (DNS rebinding). It cannot use an IP address or a
    /// name of ours as its own.
    fn check_host<'r>(&self, request: &'r Parts) -> Result<Option<&'r str>, Problem> {
        let misdirected = |host: &str| {
            let name = self.name.as_deref().unwrap_or("localhost");
            Problem::new(
                StatusCode::MISDIRECTED_REQUEST,
                format!("{host:?} is no name of this member: ask for an IP address, localhost or {name}"),
            )
        };
        let mut named = request.headers.get_all(header::HOST).iter();
        let host = match (named.next(), named.next()) {
            (Some(_), Some(_)) => return Err(Problem::new(StatusCode::BAD_REQUEST, "two Host headers")),
            (Some(host), None) => host.to_str().map_err(|_| misdirected("that"))?,
            // Health checks in HTTP/1.0 name no host; browsers always do.
            (None, _) if request.version == Version::HTTP_10 => return Ok(None),
            (None, _) => return Err(Problem::new(StatusCode::BAD_REQUEST, "HTTP/1.1 needs a Host header")),
        };
        if self.is_ours(host) { Ok(Some(host)) } else { Err(misdirected(host)) }
    }

    fn is_ours(&self, host: &str) -> bool {
        let bare = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let known = |name: &str| bare.eq_ignore_ascii_case(name);
        bare.parse::<IpAddr>().is_ok() || known("localhost") || self.name.as_deref().is_some_and(known)
    }

    fn check_reader(&self, peer: SocketAddr, headers: &HeaderMap) -> Result<(), Problem> {
        let forwarded = OF_PROXIES.iter().any(|name| headers.contains_key(*name));
        let local = self.on_loopback && peer.ip().is_loopback() && !forwarded;
        // A wrong token is an error also where none is needed.
        if local && !headers.contains_key(header::AUTHORIZATION) {
            return Ok(());
        }
        self.check_operator(headers)
    }

    fn check_operator(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(bearer);
        let (any, known) = self.tokens.know(given);
        if !any {
            let detail = "this member accepts no token: name a file with http_token_file below [cluster] of the config";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        if known {
            return Ok(());
        }
        let detail = "this request needs the token of http_token_file: Authorization: Bearer TOKEN";
        Err(Problem::new(StatusCode::UNAUTHORIZED, detail).with(header::WWW_AUTHENTICATE, "Bearer realm=\"conclave\""))
    }
}

/// A page of another origin cannot make a browser carry out an order, or hold a stream open.
fn check_origin(headers: &HeaderMap, host: Option<&str>) -> Result<(), Problem> {
    let foreign = |what: &str| Problem::new(StatusCode::FORBIDDEN, format!("a request of another origin: {what}"));
    if let Some(site) = headers.get(FETCH_SITE)
        && !matches!(site.as_bytes(), b"same-origin" | b"none")
    {
        return Err(foreign("Sec-Fetch-Site"));
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or_default();
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match (authority, host) {
        (Some(authority), Some(host)) if authority.eq_ignore_ascii_case(host) => Ok(()),
        _ => Err(foreign("Origin")),
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// In a time that depends on the lengths alone.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn door(bound: &str) -> Door {
        let tokens = Tokens::new(vec!["another-token-of-a-rotation".into(), TOKEN.into()]);
        Door::new("n1.example:8400", tokens, bound.parse().unwrap())
    }

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/v1/status");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    /// The code of the refusal; 200 if it is admitted.
    fn code(door: &Door, needs: Needs, peer: &str, headers: &[(&str, &str)]) -> u16 {
        let peer = SocketAddr::new(peer.parse().unwrap(), 5000);
        match door.admit(needs, peer, &parts(headers)) {
            Ok(()) => 200,
            Err(problem) => hyper::Response::from(problem).status().as_u16(),
        }
    }

    #[test]
    fn only_names_of_this_machine_are_answered() {
        let door = door("127.0.0.1");
        let asked = |host: &str| code(&door, Needs::Read, "127.0.0.1", &[("host", host)]);
        for ours in ["localhost", "LOCALHOST:8401", "127.0.0.1:8401", "[::1]:8401", "10.1.2.3", "N1.example:8400"] {
            assert_eq!(asked(ours), 200, "{ours}");
        }
        for foreign in
            ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8401", "n1.example.evil", "", "[evil"]
        {
            assert_eq!(asked(foreign), 421, "{foreign}");
        }
        assert_eq!(code(&door, Needs::Read, "127.0.0.1", &[]), 400);
        assert_eq!(code(&door, Needs::Read, "127.0.0.1", &[("host", "localhost"), ("host", "evil.example")]), 400);
        assert_eq!(code(&door, Needs::Nothing, "10.0.0.9", &[("host", "check.example")]), 200, "a load balancer");
        assert_eq!(code(&door, Needs::Host, "10.0.0.9", &[("host", "evil.example")]), 421);
    }

    #[test]
    fn reads_are_free_on_this_machine_and_need_the_token_from_elsewhere() {
        let (own, open) = (door("127.0.0.1"), door("0.0.0.0"));
        let host = ("host", "127.0.0.1");
        let bearer = format!("Bearer {TOKEN}");
        let token = ("authorization", bearer.as_str());
        assert_eq!(code(&own, Needs::Read, "127.0.0.1", &[host]), 200);
        assert_eq!(code(&own, Needs::Read, "127.0.0.1", &[host, ("authorization", "Bearer wrong")]), 401);
        assert_eq!(
            code(&own, Needs::Read, "127.0.0.1", &[host, ("x-forwarded-for", "10.0.0.9")]),
            401,
            "behind a proxy"
        );
        assert_eq!(code(&open, Needs::Read, "127.0.0.1", &[host]), 401);
        assert_eq!(code(&open, Needs::Read, "10.0.0.9", &[host]), 401);
        assert_eq!(code(&open, Needs::Stream, "10.0.0.9", &[host, token]), 200);
    }

    #[test]
    fn an_order_needs_the_whole_token_and_a_page_of_this_origin() {
        let door = door("127.0.0.1");
        let host = ("host", "127.0.0.1:8401");
        let order = |headers: &[(&str, &str)]| code(&door, Needs::Order, "127.0.0.1", &[&[host], headers].concat());
        assert_eq!(order(&[]), 401);
        for wrong in [TOKEN, &format!("Basic {TOKEN}"), &format!("Bearer {}", &TOKEN[1..]), &format!("Bearer {TOKEN}0")]
        {
            assert_eq!(order(&[("authorization", wrong)]), 401, "{wrong}");
        }
        let bearer = format!("bearer  {TOKEN}");
        let token = ("authorization", bearer.as_str());
        assert_eq!(order(&[token]), 200);
        assert_eq!(order(&[token, ("origin", "http://127.0.0.1:8401")]), 200);
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:8402", "http://127.0.0.1:8401.evil.example"] {
            assert_eq!(order(&[token, ("origin", foreign)]), 403, "{foreign}");
        }
        assert_eq!(order(&[token, ("sec-fetch-site", "cross-site")]), 403);
        let tokens = Tokens::default();
        let later = Door::new("n1:8400", tokens.clone(), "127.0.0.1".parse().unwrap());
        assert_eq!(code(&later, Needs::Order, "127.0.0.1", &[host, ("authorization", "Bearer ")]), 403);
        assert!(tokens.replace(vec![TOKEN.into()]).is_empty());
        assert_eq!(code(&later, Needs::Order, "127.0.0.1", &[host, token]), 200);
        assert_eq!(tokens.replace(vec!["another-token-altogether".into()]), [TOKEN]);
        assert_eq!(code(&later, Needs::Order, "127.0.0.1", &[host, token]), 401);
    }
}
