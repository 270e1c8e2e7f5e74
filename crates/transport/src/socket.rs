//! Options of every socket, whichever side opened it.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;
use tokio::net::TcpStream;

/// A machine that lost its power or its network sends no end of its connections. The kernel asks a silent far side for a
/// sign of life after this time, then every [`KEEPALIVE_EVERY`], and ends the connection after this many questions.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);
const KEEPALIVE_QUESTIONS: u32 = 3;
/// The same for sent bytes that the far side's kernel does not acknowledge, in milliseconds. The default is a quarter of
/// an hour.
const UNACKNOWLEDGED_MS: u32 = 10_000;

/// Small frames leave at once, and a far side that vanished is noticed.
pub(crate) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_QUESTIONS)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MS)?;
    Ok(())
}

/// The process or the machine has no file descriptor left.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_prepared_socket_notices_a_far_side_that_vanished() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        prepare(&stream).unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap() && stream.nodelay().unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), KEEPALIVE_AFTER);
        assert_eq!(sockopt::tcp_keepintvl(&stream).unwrap(), KEEPALIVE_EVERY);
        assert_eq!(sockopt::tcp_keepcnt(&stream).unwrap(), KEEPALIVE_QUESTIONS);
        assert_eq!(sockopt::tcp_user_timeout(&stream).unwrap(), UNACKNOWLEDGED_MS);
    }
}
