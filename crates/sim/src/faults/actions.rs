//! What happens to processes and connections: faults, dials, closes.

use std::time::Duration;

use algorithms::drive::Driver;
use algorithms::{Ctx, Input};
use member::reign::Reign;
use member::{Command, FullPos};

use super::network::{ConnId, Parcel, Transit};
use super::plan::{Action, MS, US};
use super::schedule::{Own, What};
use super::subject::Subject;
use super::world::{BACKOFF_MAX, BACKOFF_MIN, DIAL_TIMEOUT, World};

impl<S: Subject> World<'_, S> {
    pub(super) fn act(&mut self, action: &Action) {
        self.trace.note(self.now, || format!("-- {action}"));
        match *action {
            Action::Change(ref change) => {
                for node in 0..self.processes.len() {
                    self.command(node, Command::Change(change.clone()));
                }
            }
            Action::Start(node) => self.start(node),
            Action::Kill(node) => self.kill(node),
            Action::KillAfter(node, effects) => self.processes[node].doom = Some(effects),
            Action::Pause(node) => {
                if self.processes[node].runs() {
                    self.stats.pauses += 1;
                    self.processes[node].paused = true;
                    self.dirty = true;
                }
            }
            Action::Resume(node) => {
                if self.processes[node].paused {
                    self.resume(node);
                }
            }
            Action::Cut(from, to) => {
                self.stats.cuts += 1;
                self.network.cut(from, to);
                self.dirty = true;
            }
            Action::Mend(from, to) => {
                let held = self.network.mend(from, to);
                self.release(held);
            }
            Action::Elect(node) => self.command(node, Command::Elect),
            Action::StepDown(node) => self.command(node, Command::StepDown(None)),
            Action::Rest(node, ns) => self.command(node, Command::StepDown(Some(Duration::from_nanos(ns)))),
            Action::Transfer(from, to) => self.command(from, Command::Transfer { to: self.id(to), hold: false }),
            Action::Hold(from, to) => self.command(from, Command::Transfer { to: self.id(to), hold: true }),
            Action::Maintain(node, paused) => self.command(node, Command::Pause(paused)),
            Action::Attach(node) => self.attach(node),
            Action::Detach(node) => self.detach(node),
            Action::Wipe(node) => self.wipe(node),
            Action::HangDisk(node) => self.hang_disk(node),
            Action::FreeDisk(node) => self.free_disk(node),
            Action::Slew(node, ppm) => self.processes[node].slew_ppm = ppm,
            Action::Priority(node, priority) => {
                if self.processes[node].runs() {
                    self.processes[node].priority = Some(priority);
                    self.command(node, Command::Priority(Some(priority)));
                }
            }
            Action::Heal => self.heal(),
            Action::Agreed => self.check_agreement(),
        }
    }

    fn heal(&mut self) {
        for a in 0..self.processes.len() {
            for b in 0..self.processes.len() {
                let held = self.network.mend_all(a, b);
                self.release(held);
            }
        }
        for node in 0..self.processes.len() {
            self.processes[node].doom = None;
            self.processes[node].slew_ppm = 0;
            self.free_disk(node);
            if self.processes[node].paused {
                self.resume(node);
            }
            self.start(node);
        }
    }

    /// TCP retransmits what a cut held back, after its own timeout.
    fn release(&mut self, held: Vec<Parcel<S::Message>>) {
        self.dirty = true;
        for parcel in held {
            let later = self.now + self.rng.between(MS, 50 * MS);
            let at = self.network.arrival(later, parcel.from, parcel.to, &mut self.rng);
            self.schedule(at, What::Parcel(parcel));
        }
    }

    fn start(&mut self, node: usize) {
        if self.processes[node].driver.is_some() {
            return;
        }
        self.stats.starts += 1;
        self.trace.line(self.now, self.view, node, || "starts".into());
        let (view, process) = (self.view, &mut self.processes[node]);
        let settings = &process.settings;
        let ctx = Ctx { me: view.members()[node], view, settings, dice: self.rng.word() };
        process.start += 1;
        process.driver = Some(Driver::start(&ctx, process.disk.record.clone()));
        // The id on its disk: its earlier process may have been killed before it announced it.
        if let Some(id) = process.machine().and_then(S::reign).and_then(Reign::cluster_id) {
            self.invariants.ask(|invariant| invariant.named(id));
        }
        self.after_step(node);
        if let Some(priority) = self.processes[node].priority {
            self.command(node, Command::Priority(Some(priority)));
        }
    }

    /// The process ends; the kernel closes its connections.
    pub(super) fn kill(&mut self, node: usize) {
        if self.processes[node].driver.is_none() {
            return;
        }
        self.stats.kills += 1;
        self.trace.line(self.now, self.view, node, || "is killed".into());
        let writes = self.processes[node].disk.writes_under_way();
        let survive = self.rng.index(writes + 1);
        self.orphan_child(node);
        self.processes[node].die(survive);
        self.dirty = true;
        for peer in (0..self.processes.len()).filter(|&peer| peer != node) {
            if let Some(conn) = self.network.close(node, peer) {
                self.post(Parcel { conn, from: node, to: peer, what: Transit::Fin });
            }
        }
        self.forget_deferred(node);
    }

    /// The disk is lost too. Only ever a minority's, and only if all other voters have recorded what it granted.
    fn wipe(&mut self, node: usize) {
        let voters = (0..self.processes.len()).filter(|&voter| self.votes(voter));
        let known = |at: usize| self.processes[at].disk.record.as_ref().and_then(S::vote).is_some();
        let minority = (voters.clone().count() - 1) / 2;
        let wiped = voters.clone().filter(|&voter| voter == node || self.wiped.contains(FullPos(voter))).count();
        if wiped > minority || !voters.into_iter().all(|voter| voter == node || known(voter)) {
            return;
        }
        self.wiped.insert(FullPos(node));
        self.kill(node);
        self.processes[node].disk.record = None;
        self.invariants.wiped(node);
    }

    /// Closes the node's own end: the peer gets the news, the node knows it.
    pub(super) fn hang_up(&mut self, node: usize, peer: usize) {
        if let Some(conn) = self.network.close(node, peer) {
            self.dirty = true;
            self.post(Parcel { conn, from: node, to: peer, what: Transit::Fin });
        }
    }

    pub(super) fn arrive(&mut self, parcel: Parcel<S::Message>) {
        let Parcel { conn, from, to, what } = parcel;
        if self.network.end(to, from) != Some(conn) {
            return;
        }
        let peer = self.id(from);
        match what {
            Transit::Data(message) => self.input(to, Input::Message { from: peer, message }),
            Transit::Fin => {
                self.network.close(to, from);
                self.dirty = true;
                if let Some(holder) = self.processes[to].dials.holders[from].take() {
                    self.input(to, Input::Command(Command::Closed(holder.id, holder.incarnation)));
                }
                self.input(to, Input::PeerDown(peer));
            }
        }
    }

    pub(super) fn up(&mut self, node: usize, start: u32, peer: usize, conn: ConnId) {
        if self.processes[node].start != start || self.processes[node].driver.is_none() {
            // The node died between the handshake and the news of it.
            return self.post(Parcel { conn, from: node, to: peer, what: Transit::Fin });
        }
        self.dirty = true;
        let id = self.id(peer);
        if self.network.open(node, peer, conn).is_some() {
            self.input(node, Input::PeerDown(id));
        }
        // If the step before killed the node, this end is closed again.
        if self.network.end(node, peer) == Some(conn) {
            self.processes[node].dials.failed[peer] = 0;
            self.input(node, Input::PeerUp(id));
        }
    }

    /// Dials every member that the machine wants and has no connection to.
    pub(super) fn plan_dials(&mut self, node: usize) {
        let Some(machine) = self.processes[node].machine() else { return };
        let wanted = machine.links(self.view);
        self.processes[node].dials.wanted = wanted;
        for peer in wanted.iter().map(|at| at.0).filter(|&peer| peer != node && peer < self.view.len()) {
            if self.network.end(node, peer).is_none() && !self.processes[node].dials.under_way[peer] {
                self.processes[node].dials.under_way[peer] = true;
                let failed = self.processes[node].dials.failed[peer];
                let pause = if failed == 0 { MS } else { (BACKOFF_MIN << (failed - 1).min(10)).min(BACKOFF_MAX) };
                let at = self.now + self.rng.between(pause / 2, pause);
                self.schedule_own(at, node, Own::Dial(peer));
            }
        }
    }

    pub(super) fn dial(&mut self, node: usize, peer: usize) {
        self.processes[node].dials.under_way[peer] = false;
        if self.network.end(node, peer).is_some() || !self.processes[node].dials.wanted.contains(FullPos(peer)) {
            return;
        }
        if self.network.connecting(self.now, node, peer) {
            self.processes[node].dials.under_way[peer] = true;
            return self.schedule_own(self.now + 5 * MS, node, Own::Dial(peer));
        }
        let cut = self.network.is_cut(node, peer) || self.network.is_cut(peer, node);
        let hangs = cut || self.processes[peer].paused;
        if hangs || self.processes[peer].driver.is_none() {
            self.processes[node].dials.under_way[peer] = true;
            let after = if hangs { DIAL_TIMEOUT } else { self.rng.between(100 * US, 400 * US) };
            return self.schedule_own(self.now + after, node, Own::Unreachable(peer));
        }
        let (conn, here, there) = self.network.connect(self.now, node, peer, &mut self.rng);
        let holder = |at: usize| self.processes[at].machine().and_then(S::reign).map(Reign::holder);
        let (mine, theirs) = (holder(node), holder(peer));
        for (at, node, peer, holder) in [(here, node, peer, theirs), (there, peer, node, mine)] {
            let start = self.processes[node].start;
            self.schedule(at, What::Up { node, start, peer, conn, holder });
        }
    }

    pub(super) fn unreachable(&mut self, node: usize, peer: usize) {
        let process = &mut self.processes[node];
        process.dials.under_way[peer] = false;
        process.dials.failed[peer] += 1;
        if self.network.end(node, peer).is_none() {
            let id = self.id(peer);
            self.input(node, Input::PeerDown(id));
        }
    }
}
