//! Doors between one client and all members: while they are shut, connections stay open and nothing passes.

use std::sync::Arc;

use client::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Listens for one client in front of every member.
#[derive(Debug)]
pub struct Gate {
    addresses: Vec<String>,
    open: watch::Sender<bool>,
    // Its end is the end of all connections.
    _doors: JoinSet<()>,
}

impl Gate {
    pub async fn new(members: &[Endpoint]) -> Self {
        let (open, told) = watch::channel(true);
        let (mut addresses, mut doors) = (Vec::new(), JoinSet::new());
        for member in members {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            addresses.push(listener.local_addr().expect("an address").to_string());
            doors.spawn(door(listener, member.address.clone(), told.clone()));
        }
        Gate { addresses, open, _doors: doors }
    }

    /// The address of every member's door, in the order of the members.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    pub fn shut(&self) {
        self.open.send_replace(false);
    }

    pub fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn door(listener: TcpListener, member: String, open: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let member: Arc<str> = member.into();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                connections.spawn(pass(client, Arc::clone(&member), open.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass(client: TcpStream, member: Arc<str>, mut open: watch::Receiver<bool>) {
    if open.wait_for(|open| *open).await.is_err() {
        return;
    }
    let Ok(server) = TcpStream::connect(&*member).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let back = open.clone();
    tokio::join!(pump(from_client, to_server, open), pump(from_server, to_client, back));
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut open: watch::Receiver<bool>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if open.wait_for(|open| *open).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
