//! Children of a leader: processes that act for as long as their member leads, and may outlive it until its lease ends.

use algorithms::Input;
use member::{Command, Event, OnClose, Role, Standing};

use super::plan::MS;
use super::process::{Child, Orphan, Process};
use super::schedule::Own;
use super::subject::Subject;
use super::world::World;

impl<S: Subject> World<'_, S> {
    pub(super) fn attach(&mut self, node: usize) {
        let process = &mut self.processes[node];
        if !process.runs() || process.child != Child::None {
            return;
        }
        let shown = process.standing.is_some_and(|standing| standing.role == Role::Leader);
        let leads = process.machine().and_then(S::leads).unwrap_or(shown);
        if !leads && (shown || process.is_to_announce_leadership()) {
            // Told to stop before it begins: the end of this leadership is decided, and its announcement waits for the disk,
            // perhaps behind that of its beginning.
            return;
        }
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
        let hangs = self.rng.chance(10);
        let after = if hangs { 5000 * MS } else { self.rng.between(MS, 300 * MS) };
        self.schedule_own(self.now + after, node, Own::ChildStopped);
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
    /// Does an announcement that this member leads wait for the disk?
    fn is_to_announce_leadership(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| driver.announcements().any(Event::is_of_leader))
    }

    pub(super) fn let_child_act(&mut self) {
        if self.child == Child::Waits {
            self.child = Child::Acts;
        }
    }
}

#[cfg(test)]
mod tests {
    use algorithms::catalog;
    use algorithms::election::bully::Bully;
    use algorithms::{Uid, View};
    use member::{Classic, Member, Settings};

    use super::super::invariants::InvariantSet;
    use super::super::plan::{Action, MS, Plan};
    use super::super::trace::Trace;
    use super::{Role, Subject, World};
    use crate::rng::Rng;

    type Classics<'a> = World<'a, Member<Bully, Classic>>;

    fn at(ms: u64, action: Action) -> (u64, Action) {
        (ms * MS, action)
    }

    /// Runs a cluster of three; `look` sees it at 3.155 s.
    fn run(actions: Vec<(u64, Action)>, look: impl FnOnce(&Classics<'_>)) {
        let row = catalog::row("bully").unwrap();
        let (view, settings) = (View::mesh([1, 2, 3].map(Uid::plain).to_vec()), Settings::default());
        let heal_at = 3200 * MS;
        let (kinds, delay_max, fsync_max) = (Vec::new(), MS, MS);
        let (fsync_delay, drift_ppm) = (vec![0; 3], vec![0; 3]);
        let plan = Plan { kinds, actions, heal_at, delay_max, fsync_max, fsync_delay, drift_ppm, raised: None };
        let invariants = InvariantSet::of::<Member<Bully, Classic>>(row, &view, &settings, &plan);
        let mut world: Classics<'_> = World::new(&view, &settings, &plan, invariants, Trace::keeping(200), Rng::new(1));
        world.run_until(3155 * MS);
        look(&world);
        world.run_until(10_000 * MS);
        let lines = world.trace.into_lines().join("\n");
        assert!(world.invariants.violations.is_empty(), "{:?}\n{lines}", world.invariants.violations);
    }

    /// A leader steps down while its disk hangs: it leads no more, and that announcement waits. A child that attaches
    /// meanwhile would act on a leadership that is given away.
    #[test]
    fn no_child_begins_between_the_end_of_a_leadership_and_its_announcement() {
        const LEADER: usize = 2;
        let actions = vec![
            at(0, Action::Start(0)),
            at(0, Action::Start(1)),
            at(0, Action::Start(LEADER)),
            at(3000, Action::HangDisk(LEADER)),
            at(3001, Action::Kill(0)),
            // Above every number that it may have seen: the leader has to write before it goes on.
            at(3050, Action::Start(0)),
            at(3150, Action::StepDown(LEADER)),
            at(3160, Action::Attach(LEADER)),
            at(3200, Action::FreeDisk(LEADER)),
        ];
        run(actions, |world| {
            let leader = &world.processes[LEADER];
            assert!(leader.standing.is_some_and(|shown| shown.role == Role::Leader), "{:?}", leader.standing);
            assert_eq!(leader.machine().and_then(Subject::leads), Some(false), "it has stepped down");
        });
    }

    /// The whole leadership happens while the disk hangs: its beginning and its end are announced together afterwards.
    #[test]
    fn no_child_begins_before_a_leadership_is_announced_that_is_over() {
        const ALONE: usize = 1;
        let actions = vec![
            at(0, Action::HangDisk(ALONE)),
            at(1, Action::Start(ALONE)),
            at(3000, Action::Elect(ALONE)),
            at(3150, Action::StepDown(ALONE)),
            at(3160, Action::Attach(ALONE)),
            at(3200, Action::FreeDisk(ALONE)),
        ];
        run(actions, |world| {
            let alone = &world.processes[ALONE];
            assert_eq!(alone.standing, None, "nothing is announced yet");
            assert!(alone.is_to_announce_leadership(), "it has led");
            assert_eq!(alone.machine().and_then(Subject::leads), Some(false), "it has stepped down");
        });
    }
}
