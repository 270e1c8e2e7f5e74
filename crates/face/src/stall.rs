//! A socket whose writes fail when the other end reads nothing for too long.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

#[derive(Debug)]
pub(crate) struct Stall {
    socket: TcpStream,
    patience: Duration,
    /// Runs while a write waits.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(crate) fn new(socket: TcpStream, patience: Duration) -> Self {
        Stall { socket, patience, alarm: None }
    }
}

impl AsyncRead for Stall {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stall {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = Pin::new(&mut self.socket).poll_write(cx, bytes) {
            self.alarm = None;
            return Poll::Ready(written);
        }
        let patience = self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(alarm.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap());
        let (near, far) = tokio::join!(near, listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    async fn write_for_ever(stall: &mut Stall) -> io::Error {
        loop {
            if let Err(error) = stall.write_all(&[0; 16 << 10]).await {
                return error;
            }
        }
    }

    #[tokio::test]
    async fn a_write_fails_if_the_other_end_reads_nothing_and_not_if_it_reads_slowly() {
        let (near, mut far) = pair().await;
        let mut stall = Stall::new(near, Duration::from_millis(50));
        let failed = tokio::time::timeout(PATIENCE, write_for_ever(&mut stall)).await.expect("it gives up");
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        drop(stall);
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        // Every byte that is read gives the writer more time; here it has far more than it needs.
        let (near, mut far) = pair().await;
        let mut stall = Stall::new(near, PATIENCE);
        let reading = tokio::spawn(async move {
            let mut bytes = vec![0; 64 << 10];
            let mut all = 0;
            while let Ok(length @ 1..) = far.read(&mut bytes).await {
                all += length;
            }
            all
        });
        for _ in 0..1000 {
            stall.write_all(&[0; 16 << 10]).await.unwrap();
        }
        drop(stall);
        assert_eq!(reading.await.unwrap(), 1000 * (16 << 10));
    }
}
