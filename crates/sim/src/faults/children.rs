//! Children of a leader: processes that act for as long as their member leads, and may outlive it until its lease ends.

use algorithms::Input;
use member::{Command, OnClose, Role, Standing};

use super::plan::MS;
use super::process::{Child, Orphan, Process};
use super::subject::Subject;
use super::world::{What, World};

impl<S: Subject> World<'_, S> {
    pub(super) fn attach(&mut self, node: usize) {
        let process = &mut self.processes[node];
        if !process.runs() || process.child != Child::None {
            return;
        }
        let leads = process.standing.is_some_and(|standing| standing.role == Role::Leader);
        // Voters must not take the end of this process for the end of its child: the child waits until they know of it.
        let waits = leads && self.settings.on_close == OnClose::Immediate;
        process.child = if waits { Child::Waits } else { Child::Acts };
        self.stats.children += 1;
        self.input(node, Input::Command(Command::Attached(true)));
    }

    pub(super) fn detach(&mut self, node: usize) {
        if self.processes[node].runs() && self.processes[node].child != Child::None {
            self.processes[node].child = Child::None;
            self.input(node, Input::Command(Command::Attached(false)));
        }
    }

    /// Most children stop soon; some hang, and must be given up.
    pub(super) fn stop_child(&mut self, node: usize) {
        let start = self.processes[node].start;
        let hangs = self.rng.chance(10);
        let after = if hangs { 5000 * MS } else { self.rng.between(MS, 300 * MS) };
        self.schedule(self.now + after, What::ChildStopped { node, start });
    }

    /// The member changed its standing.
    pub(super) fn became(&mut self, node: usize, now: Standing) {
        if now.role != Role::Leader {
            // The news that the member leads no more does not reach its child before the lease ends.
            self.orphan_child(node);
            self.processes[node].lease_until = 0;
            self.processes[node].let_child_act();
        }
        self.processes[node].standing = Some(now);
    }

    /// The child of a leader acts until the lease ends.
    pub(super) fn orphan_child(&mut self, node: usize) {
        let process = &mut self.processes[node];
        let leads = process.standing.filter(|standing| standing.role == Role::Leader);
        let holder = process.machine().and_then(S::reign).map(member::reign::Reign::holder);
        if let (Some(standing), Some(holder), Child::Acts) = (leads, holder, process.child) {
            let orphan = Orphan { holder, epoch: standing.epoch, until: process.lease_until };
            process.orphan = Some(orphan).filter(|orphan| orphan.until > self.now);
        }
    }
}

impl<S: Subject> Process<S> {
    pub(super) fn let_child_act(&mut self) {
        if self.child == Child::Waits {
            self.child = Child::Acts;
        }
    }
}
