//! A client of the lock service under test: takes a lock, writes to a register, gives the lock back, and again, until its standard
//! input ends. Everything that it does is in its log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{ClientSettings, ClusterFile, Endpoint, LockError, LockGuard, Session, read_secrets};
use testkit::client_log::{ClientLog, Event};
use testkit::register::Register;
use types::Dice;

type Failure = Box<dyn std::error::Error>;

const OPENING: Duration = Duration::from_mins(2);
/// One turn in so many is slow.
const SLOW: u64 = 32;
/// One turn in so many outlasts the death of a leader.
const LONG: u64 = 1000;
const LONG_MS: u64 = 1500;

struct Worker {
    number: u32,
    lock: String,
    session: Session,
    register: Arc<std::sync::Mutex<Register>>,
    log: ClientLog,
    dice: Dice,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [config, addresses, lock, register, log, number, ttl, seed] = arguments.as_slice() else {
        return Err("register-client CONFIG ADDRESS,... LOCK REGISTER LOG NUMBER TTL_MS SEED".into());
    };
    let stopped = watch_input();
    let file = ClusterFile::read(config.as_ref())?;
    let secret = file.secret_file.as_ref().ok_or("a cluster without a secret")?;
    let keyring = read_secrets(secret, file.secret_permissions)?.into();
    let settings = ClientSettings { cluster: file.name, keyring, deadline: Duration::from_secs(1) };
    let endpoints = (1..).zip(addresses.split(',')).map(|(id, address)| Endpoint::member(id, address)).collect();
    let ttl = Duration::from_millis(ttl.parse()?);
    let mut worker = Worker {
        number: number.parse()?,
        lock: lock.clone(),
        session: Session::open_within(endpoints, &settings, ttl, OPENING).await?,
        register: Arc::new(Register::open(Path::new(register))?.into()),
        log: ClientLog::create(Path::new(log))?,
        dice: Dice(seed.parse()?),
    };
    while !stopped.load(Ordering::Relaxed) {
        worker.turn().await?;
    }
    worker.session.close().await;
    Ok(())
}

/// True once the standard input has ended.
fn watch_input() -> Arc<AtomicBool> {
    let stopped = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stopped);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        told.store(true, Ordering::Relaxed);
    });
    stopped
}

impl Worker {
    async fn turn(&mut self) -> Result<(), Failure> {
        self.log.write(Event::Asked)?;
        let guard = match self.session.lock(&self.lock).await {
            Ok(guard) => guard,
            // The next request begins another session.
            Err(LockError::SessionLost(_)) => return Ok(self.log.write(Event::Lost)?),
            Err(error) => return Err(error.into()),
        };
        self.log.write(Event::Granted(guard.token()))?;
        if !self.act(&guard).await? || guard.remaining().is_zero() {
            self.log.write(Event::Lost)?;
            return Ok(());
        }
        self.log.write(Event::Acted)?;
        match guard.release().await {
            Ok(()) => self.log.write(Event::Freed)?,
            Err(LockError::SessionLost(_)) => self.log.write(Event::Lost)?,
            Err(error) => return Err(error.into()),
        }
        self.pause().await;
        Ok(())
    }

    /// Writes, and after a while again. False if the lock is lost.
    async fn act(&mut self, guard: &LockGuard) -> Result<bool, Failure> {
        if !self.write(guard).await? {
            return Ok(false);
        }
        let length = match self.dice.roll() {
            roll if roll.is_multiple_of(LONG) => self.dice.roll() % LONG_MS,
            roll if roll.is_multiple_of(SLOW) => self.dice.roll() % 10,
            _ => return Ok(true),
        };
        let pause = tokio::time::sleep(Duration::from_millis(length));
        Ok(guard.protect(pause).await.is_ok() && self.write(guard).await?)
    }

    /// The right is looked at before the write, and is kept alive during it. False if the lock is lost.
    async fn write(&mut self, guard: &LockGuard) -> Result<bool, Failure> {
        if guard.remaining().is_zero() {
            return Ok(false);
        }
        self.log.write(Event::Acted)?;
        let (register, token, number) = (Arc::clone(&self.register), guard.token().0, self.number);
        let write = tokio::task::spawn_blocking(move || match register.lock() {
            Ok(mut register) => register.write(token, number),
            Err(_) => Err(std::io::Error::other("a write has panicked")),
        });
        let Ok(written) = guard.protect(write).await else { return Ok(false) };
        if !written?? {
            self.log.write(Event::Refused)?;
        }
        Ok(true)
    }

    /// Now and then.
    async fn pause(&mut self) {
        if self.dice.roll().is_multiple_of(SLOW) {
            tokio::time::sleep(Duration::from_millis(self.dice.roll() % 20)).await;
        }
    }
}
