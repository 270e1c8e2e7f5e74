//! A small client of HTTP/1.1 for tests: one request, its whole answer; or a stream, event by event.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::{PATIENCE, Plan, free_ports_elsewhere};

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.code, self.body))
    }
}

/// The plan with an HTTP face for every member, on free ports.
pub fn with_faces(plan: Plan) -> Plan {
    let http_ports = free_ports_elsewhere(plan.nodes).expect("free ports");
    Plan { http_ports, ..plan }
}

/// One connection.
#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    pub async fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("an HTTP face");
        Http { stream: BufReader::new(stream) }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("an open connection");
    }

    /// The head of the next answer, and how long its body is; `None` if the connection ended before.
    async fn head(&mut self) -> Option<(Answer, Option<usize>)> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.ok().filter(|&bytes| bytes > 0)?;
        let code = line.split(' ').nth(1)?.parse().ok()?;
        let mut answer = Answer { code, headers: Vec::new(), body: String::new() };
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).await.ok().filter(|&bytes| bytes > 0)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            answer.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        Some((answer, length))
    }

    /// The next answer; `None` if the connection ended before it was whole.
    pub async fn answer(&mut self, is_head: bool) -> Option<Answer> {
        let (mut answer, length) = self.head().await?;
        let mut body = vec![0; if is_head { 0 } else { length? }];
        self.stream.read_exact(&mut body).await.ok()?;
        answer.body = String::from_utf8_lossy(&body).into_owned();
        Some(answer)
    }

    /// True if the far side closes the connection before the time is up.
    pub async fn closes_within(&mut self, patience: Duration) -> bool {
        let mut rest = Vec::new();
        tokio::time::timeout(patience, self.stream.read_to_end(&mut rest)).await.is_ok()
    }

    /// Opens `/v1/events`.
    pub async fn events(port: u16, headers: &str) -> Self {
        let mut http = Http::connect(port).await;
        http.send(format!("GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{headers}\r\n").as_bytes()).await;
        let (answer, _) = http.head().await.expect("an answer");
        assert_eq!((answer.code, answer.header("content-type")), (200, Some("text/event-stream")), "{answer:?}");
        http
    }

    /// The next event of the stream: its id, its name and its data. Comments and the chunks around them are skipped.
    pub async fn event(&mut self) -> (Option<String>, Option<String>, Value) {
        let (mut id, mut name) = (None, None);
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await;
            assert!(matches!(read, Ok(Ok(bytes)) if bytes > 0), "the stream ended or is silent");
            match line.trim_end().split_once(": ") {
                Some(("id", value)) => id = Some(value.to_owned()),
                Some(("event", value)) => name = Some(value.to_owned()),
                Some(("data", value)) => return (id, name, serde_json::from_str(value).expect("JSON")),
                _ => {}
            }
        }
    }

    /// The next event that satisfies the condition. A stream is never silent, so the wait for each line bounds nothing.
    pub async fn event_that(&mut self, fits: impl Fn(&Value) -> bool) -> (Option<String>, Value) {
        let mut others = Vec::new();
        let reading = async {
            loop {
                let (id, _, data) = self.event().await;
                if fits(&data) {
                    return (id, data);
                }
                others.push(data.to_string());
            }
        };
        let found = tokio::time::timeout(PATIENCE, reading).await;
        found.unwrap_or_else(|_| panic!("no such event, but these:\n{}", others.join("\n")))
    }
}

/// One request over a connection of its own.
pub async fn ask(port: u16, method: &str, path: &str, headers: &str, body: &str) -> Answer {
    let mut http = Http::connect(port).await;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: 127.0.0.1:{port}\r\n") };
    http.send(format!("{method} {path} HTTP/1.1\r\n{host}{headers}{length}\r\n{body}").as_bytes()).await;
    let answer = tokio::time::timeout(PATIENCE, http.answer(method == "HEAD")).await;
    answer.expect("an answer in time").unwrap_or_else(|| panic!("{method} {path}: the connection ended"))
}

pub async fn get(port: u16, path: &str) -> Answer {
    ask(port, "GET", path, "", "").await
}

/// An order with this token.
pub async fn post(port: u16, path: &str, token: &str, body: &str) -> Answer {
    let headers = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
    ask(port, "POST", path, &headers, body).await
}
