//! Any model behind one type: the checker is compiled once, not once for every machine of the catalog.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use stateright::{Expectation, Model, Property};

/// What the checker asks of a model.
trait AnyModel: Send + Sync {
    fn init_states(&self) -> Vec<State>;
    fn actions(&self, state: &State, actions: &mut Vec<Action>);
    fn next_state(&self, state: &State, action: Action) -> Option<State>;
    fn within_boundary(&self, state: &State) -> bool;
    fn format_action(&self, action: &Action) -> String;
    fn properties(&self) -> Vec<(Expectation, &'static str)>;
    /// `place`: of the property, in the order of [`AnyModel::properties`]. What is to be seen once is looked for until then:
    /// the checker would ask for it at every state.
    fn holds(&self, place: usize, state: &State) -> bool;
}

trait AnyState: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    /// By one known hasher: through a reference to any hasher, every field would be a call that cannot be inlined.
    fn digest(&self) -> u64;
    fn equals(&self, other: &dyn Any) -> bool;
    fn describe(&self) -> String;
}

/// A state of the model. No clone copies it.
#[derive(Clone)]
pub(crate) struct State(Arc<dyn AnyState>);

/// An action of the model.
#[derive(Clone)]
pub(crate) struct Action(Rc<dyn Any>);

#[derive(Clone)]
pub(crate) struct Erased(Arc<dyn AnyModel>);

struct Known<M: Model> {
    model: M,
    properties: Vec<Property<M>>,
    /// Which `sometimes` properties were seen.
    seen: Vec<AtomicBool>,
}

impl Erased {
    pub(crate) fn new<M>(model: M) -> Self
    where
        M: Model + Send + Sync + 'static,
        M::State: Debug + Hash + PartialEq + Send + Sync + 'static,
        M::Action: Clone + Debug + 'static,
    {
        let properties = model.properties();
        let seen = properties.iter().map(|_| AtomicBool::new(false)).collect();
        Erased(Arc::new(Known { model, properties, seen }))
    }
}

impl State {
    pub(crate) fn describe(&self) -> String {
        self.0.describe()
    }

    /// The model's own state.
    fn of<T: 'static>(&self) -> &T {
        self.0.as_any().downcast_ref().expect("a state of this model")
    }
}

impl<T: Debug + Hash + PartialEq + Send + Sync + 'static> AnyState for T {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn digest(&self) -> u64 {
        RandomState::with_seeds(1, 2, 3, 4).hash_one(self)
    }

    fn equals(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn describe(&self) -> String {
        format!("{self:#?}")
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.0.digest());
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other.0.as_any())
    }
}

/// The checker compares actions only to follow a path of them that it is given; here it is given none.
impl PartialEq for Action {
    fn eq(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl<M> AnyModel for Known<M>
where
    M: Model + Send + Sync + 'static,
    M::State: Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + 'static,
{
    fn init_states(&self) -> Vec<State> {
        self.model.init_states().into_iter().map(|state| State(Arc::new(state))).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let mut own = Vec::new();
        self.model.actions(state.of(), &mut own);
        actions.extend(own.into_iter().map(|action| Action(Rc::new(action))));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let action: Rc<M::Action> = action.0.downcast().expect("an action of this model");
        let next = self.model.next_state(state.of(), Rc::unwrap_or_clone(action));
        next.map(|state| State(Arc::new(state)))
    }

    fn within_boundary(&self, state: &State) -> bool {
        self.model.within_boundary(state.of())
    }

    fn format_action(&self, action: &Action) -> String {
        self.model.format_action(action.0.downcast_ref().expect("an action of this model"))
    }

    fn properties(&self) -> Vec<(Expectation, &'static str)> {
        self.properties.iter().map(|property| (property.expectation.clone(), property.name)).collect()
    }

    fn holds(&self, place: usize, state: &State) -> bool {
        let property = &self.properties[place];
        let once = property.expectation == Expectation::Sometimes;
        if once && self.seen[place].load(Ordering::Relaxed) {
            return false;
        }
        let holds = (property.condition)(&self.model, state.of());
        if once && holds {
            self.seen[place].store(true, Ordering::Relaxed);
        }
        holds
    }
}

impl Model for Erased {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        self.0.init_states()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.0.actions(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        self.0.next_state(state, action)
    }

    fn within_boundary(&self, state: &State) -> bool {
        self.0.within_boundary(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = self.0.properties();
        assert!(all.len() <= CONDITIONS.len(), "more conditions are needed");
        let with = |((expectation, name), condition)| Property { expectation, name, condition };
        all.into_iter().zip(CONDITIONS).map(with).collect()
    }
}

impl Erased {
    pub(crate) fn describe(&self, action: &Action) -> String {
        self.0.format_action(action)
    }
}

type Condition = fn(&Erased, &State) -> bool;

/// The checker wants a plain function for every property: this one is that of the property at its place.
fn condition<const PLACE: usize>(model: &Erased, state: &State) -> bool {
    model.0.holds(PLACE, state)
}

macro_rules! conditions {
    ($($place:literal)*) => {
        [$(condition::<$place>),*]
    };
}

const CONDITIONS: [Condition; 40] = conditions!(
    0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39
);
