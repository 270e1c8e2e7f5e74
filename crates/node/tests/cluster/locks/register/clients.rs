//! The processes that take the lock, and what happens to them.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use client::Endpoint;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client_log::Told;
use testkit::gate::Gate;
use testkit::{Live, PATIENCE, Scratch, register_client_binary};
use tokio::process::{Child, Command};
use types::Dice;

use super::Outcome;

/// Longer than every fault of members: no session of a client that runs may be lost.
const TTL: Duration = Duration::from_secs(8);
/// Of clients that are killed, paused and cut off: the others wait so long for them.
const SHORT_TTL: Duration = Duration::from_millis(1500);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Runs to the end.
    Steady,
    /// Is killed and paused.
    Mortal,
    /// Is cut off.
    Gated,
}

struct Process {
    number: u32,
    kind: Kind,
    gate: Option<Gate>,
    child: Child,
}

pub(super) struct Clients {
    scratch: Scratch,
    config: PathBuf,
    members: Vec<Endpoint>,
    running: Vec<Process>,
    /// The numbers of all processes, and whether they were left alone.
    all: Vec<(u32, Kind)>,
    faulted: u32,
}

impl Clients {
    /// One in five is cut off now and then, two in five are killed and paused.
    pub(super) async fn start(live: &Live, count: u32, dice: &mut Dice) -> Self {
        let mut clients = Clients {
            scratch: Scratch::new("register").unwrap(),
            config: live.cluster.config(),
            members: live.cluster.endpoints(),
            running: Vec::new(),
            all: Vec::new(),
            faulted: 0,
        };
        for number in 0..count {
            let kind = match number % 5 {
                0 | 1 => Kind::Steady,
                2 | 3 => Kind::Mortal,
                _ => Kind::Gated,
            };
            let gate = if kind == Kind::Gated { Some(Gate::new(&clients.members).await) } else { None };
            clients.add(kind, gate, dice);
        }
        clients
    }

    pub(super) fn register(&self) -> PathBuf {
        self.scratch.path().join("register")
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.scratch.path().to_owned()
    }

    pub(super) fn faulted(&self) -> u32 {
        self.faulted
    }

    fn log(&self, number: u32) -> PathBuf {
        self.scratch.path().join(format!("log-{number}"))
    }

    fn add(&mut self, kind: Kind, gate: Option<Gate>, dice: &mut Dice) {
        let number = self.all.len() as u32;
        let own: Vec<String> = self.members.iter().map(|member| member.address.clone()).collect();
        let addresses = gate.as_ref().map_or(own.as_slice(), Gate::addresses).join(",");
        let ttl = if kind == Kind::Steady { TTL } else { SHORT_TTL };
        let child = Command::new(register_client_binary())
            .arg(&self.config)
            .args([&addresses, "register"])
            .args([self.register(), self.log(number)])
            .args([number.to_string(), ttl.as_millis().to_string(), dice.roll().to_string()])
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.all.push((number, kind));
        self.running.push(Process { number, kind, gate, child });
    }

    /// One fault after another, until the members' faults are over. Each holds up all others for a ttl.
    pub(super) async fn faults(&mut self, rest: Duration, dice: &mut Dice, over: &Cell<bool>) {
        while !over.get() {
            let troubled: Vec<usize> =
                (0..self.running.len()).filter(|&at| self.running[at].kind != Kind::Steady).collect();
            let Some(&at) = troubled.get(dice.below(troubled.len())) else { return };
            let pause = Duration::from_millis(200 + dice.roll() % 3000);
            self.faulted += 1;
            if let Some(gate) = &self.running[at].gate {
                gate.shut();
                tokio::time::sleep(pause).await;
                gate.open();
            } else if dice.roll().is_multiple_of(2) {
                let mut killed = self.running.swap_remove(at);
                killed.child.kill().await.unwrap();
                self.add(Kind::Mortal, None, dice);
            } else {
                signal(&self.running[at].child, Signal::STOP);
                tokio::time::sleep(pause).await;
                signal(&self.running[at].child, Signal::CONT);
            }
            tokio::time::sleep(rest * (dice.roll() % 4) as u32).await;
        }
    }

    /// Every client gets the lock once more if it waits for it, and ends by itself.
    pub(super) async fn stop(&mut self) {
        for process in &mut self.running {
            drop(process.child.stdin.take());
        }
        for process in &mut self.running {
            let ended = tokio::time::timeout(3 * PATIENCE, process.child.wait()).await;
            let status = ended.unwrap_or_else(|_| panic!("client {} is not served", process.number)).unwrap();
            assert!(status.success(), "client {}: {status}", process.number);
        }
    }

    pub(super) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome::default();
        for &(number, kind) in &self.all {
            let path = self.log(number);
            // It may have been killed before it had a session.
            if !path.exists() {
                continue;
            }
            let told = Told::read(&path, number).unwrap();
            if kind == Kind::Steady {
                outcome.lost_by_steady.extend(told.lost.iter().map(|at| (number, *at)));
            }
            outcome.all.holds.extend(told.holds);
            outcome.all.lost.extend(told.lost);
            outcome.all.refused += told.refused;
        }
        outcome
    }
}

fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("a running client");
    kill_process(pid, signal).unwrap();
}
