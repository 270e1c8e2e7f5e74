//! The initial states of a model.

use std::time::Duration;

use types::Uid;

use super::steps::seconds;
use super::{
    Action, Arc, BTreeMap, BTreeSet, Breach, Budget, Client, Epoch, LockModel, LockName, LockSettings, Mode, Node,
    Session, SessionId, Shows, State, Subject, Times, View,
};

/// What has happened before.
#[derive(Clone, Debug)]
pub enum Script {
    Do(Action),
    /// Everything that was sent is read, and the timers fire that only delay something.
    Settle,
    /// All that other members have sent to this member is read by it.
    Wires(usize),
    /// All that clients have sent is read.
    Heard,
    /// This client reads all that is on its way to it.
    Ears(usize),
}

#[derive(Clone, Debug)]
pub struct Setup {
    /// See [`LockModel::lists`].
    pub lists: Vec<Vec<usize>>,
    pub times: Times,
    pub breach: Option<Breach>,
    /// See [`LockModel::dice`].
    pub dice: u64,
}

impl Default for Setup {
    fn default() -> Self {
        let times = Times { right: 1, ttl: 2, lease: 2 };
        Setup { lists: vec![vec![0, 1, 2]], times, breach: None, dice: 0 }
    }
}

/// Enough for any script.
const PLENTY: Budget = Budget::each(9);

impl<P: Subject> LockModel<P> {
    /// The first member leads three voters and serves both clients, which have opened their sessions.
    pub fn served(budget: Budget) -> Self {
        Self::cold(Setup::default(), budget).serving()
    }

    /// Notes go to a majority first, and to the other voters when a timer fires, which is at any time.
    #[must_use]
    pub fn spread(mut self) -> Self {
        self.settings.spread = Duration::from_millis(1);
        self
    }

    /// Members that have just started for the first time.
    pub fn cold(Setup { lists, times, breach, dice }: Setup, budget: Budget) -> Self {
        let members = lists.iter().flatten().max().map_or(0, |last| last + 1);
        let settings = LockSettings {
            max_ttl: seconds(times.ttl),
            min_ttl: Duration::from_secs(1),
            margin: Duration::from_secs(1),
            ..LockSettings::default()
        };
        let view = View::mesh((1..=members as u32).map(Uid::plain).collect());
        let client = |id: u128| {
            let session = Session::new(SessionId(id), seconds(times.ttl), false);
            let (sent, waits) = (BTreeMap::new(), BTreeMap::new());
            Arc::new(Client { session, stream: None, right: 0, sent, asked: 0, waits })
        };
        let initial = State {
            nodes: Vec::new(),
            wires: BTreeMap::new(),
            clients: [client(1), client(2)],
            streams: BTreeMap::new(),
            opened: 0,
            epoch: Epoch(0),
            bid: None,
            lease: None,
            list: 0,
            left: budget,
            acted: BTreeMap::new(),
            ended: BTreeSet::new(),
            flaws: BTreeSet::new(),
        };
        let lock = LockName::new("a").expect("a name");
        let requests = || vec![(lock.clone(), Mode::Exclusive); 4];
        let mut model = LockModel {
            view,
            settings,
            times,
            budget,
            breach,
            requests: [requests(), requests()],
            lists,
            long_turns: false,
            dice,
            shows: Shows::LaterClerks,
            only: None,
            initial,
        };
        let node = |at| {
            let driver = Some(model.start(at, 1));
            Arc::new(Node { driver, life: 1, granted: None, only_holder: false, office: None, lost: None })
        };
        model.initial.nodes = (0..members).map(node).collect();
        model
    }

    /// The first member leads with the grants of all voters and serves both clients, which have opened their sessions.
    #[must_use]
    pub fn serving(self) -> Self {
        let others = self.lists[0].clone().into_iter().filter(|&voter| voter > 0);
        let mut script = vec![Script::Do(Action::Bids(0))];
        script.extend(others.map(|voter| Script::Do(Action::Grants { voter, won: false })));
        let serves = [Action::Wins, Action::Moves(0, 0), Action::Moves(1, 0)];
        script.extend(serves.map(Script::Do));
        script.push(Script::Settle);
        self.after(&script)
    }

    /// This has happened before, in this order; it costs nothing.
    #[must_use]
    pub fn after(mut self, script: &[Script]) -> Self {
        for step in script {
            self.initial.left = PLENTY;
            match step {
                Script::Do(action) => self.go(action),
                Script::Settle => while self.settle(|_| true) {},
                &Script::Wires(node) => {
                    while self.settle(|action| matches!(action, Action::Reads { node: at, .. } if *at == node)) {}
                }
                Script::Heard => while self.settle(|action| matches!(action, Action::Hears(_))) {},
                &Script::Ears(client) => {
                    while self.settle(|action| matches!(action, Action::Listens(at) if *at == client)) {}
                }
            }
        }
        self.initial.left = self.budget;
        self
    }

    fn go(&mut self, action: &Action) {
        let mut possible = Vec::new();
        self.choices(&self.initial, &mut possible);
        assert!(possible.contains(action), "{action:?} is none of {possible:?}");
        self.initial = self.perform(&self.initial, action);
        assert!(self.initial.flaws.is_empty(), "{:?} before the beginning", self.initial.flaws);
    }

    /// Delivers one thing; false if nothing is on its way.
    fn settle(&mut self, wanted: impl Fn(&Action) -> bool) -> bool {
        let mut possible = Vec::new();
        self.choices(&self.initial, &mut possible);
        let delivers = |action: &&Action| match action {
            Action::Reads { .. } | Action::Hears(_) | Action::Listens(_) | Action::TurnEnds(_) => true,
            Action::Fires(node, timer) => {
                self.initial.nodes[*node].timers().any(|(other, left)| other == *timer && left.is_none())
            }
            _ => false,
        };
        let Some(action) = possible.iter().filter(delivers).find(|action| wanted(action)) else { return false };
        self.initial = self.perform(&self.initial, action);
        true
    }
}
