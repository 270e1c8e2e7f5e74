//! Locks of Redis: `SET name value NX PX ttl`, and `DEL name`. Nobody queues: a client that meets a holder asks again at once.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Connection {
    stream: TcpStream,
    input: [u8; 256],
}

fn command(words: &[&str]) -> String {
    let words: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let count = words.matches('$').count();
    format!("*{count}\r\n{words}")
}

impl Connection {
    pub async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, input: [0; 256] })
    }

    /// The answers asked for are one short line each.
    async fn ask(&mut self, command: &str) -> Result<&[u8]> {
        self.stream.write_all(command.as_bytes()).await?;
        let mut read = 0;
        while !self.input[..read].ends_with(b"\r\n") {
            match self.stream.read(&mut self.input[read..]).await? {
                0 => bail!("redis closed the connection"),
                more => read += more,
            }
        }
        Ok(&self.input[..read])
    }

    pub async fn pair(&mut self, name: &str) -> Result<Duration> {
        let (set, delete) = (command(&["SET", name, "1", "NX", "PX", "10000"]), command(&["DEL", name]));
        let asked = Instant::now();
        loop {
            match self.ask(&set).await? {
                b"+OK\r\n" => break,
                b"$-1\r\n" => {}
                other => bail!("redis: {}", String::from_utf8_lossy(other)),
            }
        }
        let took = asked.elapsed();
        match self.ask(&delete).await? {
            b":1\r\n" => Ok(took),
            other => bail!("redis: {}", String::from_utf8_lossy(other)),
        }
    }
}
