//! Locks of etcd: its lock API over gRPC, in one lease per client. The few messages are encoded by hand.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;

pub struct Connection {
    requests: SendRequest<Bytes>,
    address: String,
    lease: u64,
}

fn varint(out: &mut BytesMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn text(out: &mut BytesMut, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.put_slice(value);
}

fn number(out: &mut BytesMut, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

/// The first field with this number: its bytes, or its value.
fn field(mut message: &[u8], wanted: u64) -> Option<(u64, &[u8])> {
    while !message.is_empty() {
        let (key, rest) = take_varint(message)?;
        let (value, rest) = take_varint(rest)?;
        let (bytes, rest) = match key & 7 {
            0 => (&rest[..0], rest),
            2 => rest.split_at_checked(usize::try_from(value).ok()?)?,
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some((value, bytes));
        }
        message = rest;
    }
    None
}

fn take_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// The address of the member that leads: every write goes through it.
pub async fn leader(addresses: &[String]) -> Result<String> {
    for address in addresses {
        let status = Connection::dial(address).await?.call("/etcdserverpb.Maintenance/Status", &[]).await?;
        let header = field(&status, 1).context("a header")?.1;
        let (member, leader) = (field(header, 2).context("a member")?.0, field(&status, 4).context("a leader")?.0);
        if member == leader {
            return Ok(address.clone());
        }
    }
    bail!("etcd: none of {addresses:?} leads")
}

impl Connection {
    async fn dial(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (requests, connection) = h2::client::handshake(stream).await?;
        tokio::spawn(connection);
        Ok(Connection { requests, address: address.to_owned(), lease: 0 })
    }

    pub async fn open(address: &str) -> Result<Self> {
        let mut etcd = Connection::dial(address).await?;
        let mut grant = BytesMut::new();
        number(&mut grant, 1, 60);
        let granted = etcd.call("/etcdserverpb.Lease/LeaseGrant", &grant).await?;
        etcd.lease = field(&granted, 2).context("a lease")?.0;
        Ok(etcd)
    }

    async fn call(&mut self, path: &str, message: &[u8]) -> Result<BytesMut> {
        let uri = format!("http://{}{path}", self.address);
        let head = Request::post(uri).header("content-type", "application/grpc").header("te", "trailers").body(())?;
        let mut frame = BytesMut::with_capacity(message.len() + 5);
        frame.put_u8(0);
        frame.put_u32(message.len() as u32);
        frame.put_slice(message);
        let mut requests = self.requests.clone().ready().await?;
        let (answer, mut body) = requests.send_request(head, false)?;
        body.send_data(frame.freeze(), true)?;
        let mut body = answer.await?.into_body();
        let mut answer = BytesMut::new();
        while let Some(part) = body.data().await {
            let part = part?;
            body.flow_control().release_capacity(part.len())?;
            answer.put_slice(&part);
        }
        let trailers = body.trailers().await?;
        let status = trailers.as_ref().and_then(|trailers| trailers.get("grpc-status"));
        if answer.len() < 5 || status.is_some_and(|status| status != "0") {
            bail!("etcd: {path}: {trailers:?}");
        }
        Ok(answer.split_off(5))
    }

    pub async fn pair(&mut self, name: &str) -> Result<Duration> {
        let mut lock = BytesMut::new();
        text(&mut lock, 1, name.as_bytes());
        number(&mut lock, 2, self.lease);
        let asked = Instant::now();
        let locked = self.call("/v3lockpb.Lock/Lock", &lock).await?;
        let took = asked.elapsed();
        let mut unlock = BytesMut::new();
        text(&mut unlock, 1, field(&locked, 2).context("a key")?.1);
        self.call("/v3lockpb.Lock/Unlock", &unlock).await?;
        Ok(took)
    }
}
