//! Options of every socket, whichever side opened it.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};
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

/// Links to members have the last of this many file descriptors, if the process may open so many files.
const DESCRIPTORS: u64 = 2048;
/// A link to each of 255 members, and a second one that is about to replace it.
const DESCRIPTORS_OF_MEMBERS: u64 = 512;

/// Moves a connection to a member behind those of all clients.
///
/// Linux closes the files of a killed process one after the other, that with the highest number first. It takes some 15 us
/// for each connection: the other members would notice the death of a leader of a thousand clients 15 ms later.
pub(crate) fn number_behind_clients(stream: TcpStream) -> TcpStream {
    // Without a free number the connection serves as it is.
    renumbered(&stream).unwrap_or(stream)
}

fn renumbered(stream: &TcpStream) -> io::Result<TcpStream> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let first = limit.saturating_sub(DESCRIPTORS_OF_MEMBERS);
    TcpStream::from_std(fcntl_dupfd_cloexec(stream, first as RawFd)?.into())
}

/// The process or the machine has no file descriptor left.
pub(crate) fn out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE].into_iter().any(|errno| code == Some(errno.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_renumbered_connection_is_behind_later_ones_and_serves_on() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut member = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut far, _) = listener.accept().await.unwrap();
        far.write_all(b"sent before").await.unwrap();
        member.readable().await.unwrap();
        member = number_behind_clients(member);
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(member.as_raw_fd() > client.as_raw_fd(), "{member:?} {client:?}");
        let mut bytes = [0; 11];
        member.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"sent before");
        drop(member);
        assert_eq!(far.read(&mut bytes).await.unwrap(), 0, "no other descriptor keeps the connection open");
    }

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
