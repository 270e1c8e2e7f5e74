//! The list of what must hold of a model and of what must be seen in it.

use stateright::{Model, Property};

/// The types of the model and its states are known to the list, so its conditions need not name them.
pub(crate) struct Properties<M: Model>(pub(crate) Vec<Property<M>>);

impl<M: Model> Properties<M> {
    pub(crate) fn of(_: &M) -> Self {
        Properties(Vec::new())
    }

    pub(crate) fn always(&mut self, name: &'static str, holds: fn(&M, &M::State) -> bool) {
        self.0.push(Property::always(name, holds));
    }

    pub(crate) fn sometimes(&mut self, name: &'static str, seen: fn(&M, &M::State) -> bool) {
        self.0.push(Property::sometimes(name, seen));
    }

    /// It must be seen where the model's bounds make it possible.
    pub(crate) fn sometimes_if(&mut self, possible: bool, name: &'static str, seen: fn(&M, &M::State) -> bool) {
        if possible {
            self.sometimes(name, seen);
        }
    }

    /// Without a name, all of them.
    pub(crate) fn only(mut self, name: Option<&'static str>) -> Vec<Property<M>> {
        self.0.retain(|property| name.is_none_or(|only| property.name == only));
        self.0
    }
}

/// Of items in ascending order.
pub(crate) fn all_differ<T: Copy + PartialEq>(mut items: impl Iterator<Item = T>) -> bool {
    let mut last = items.next();
    items.all(|item| last.replace(item) != Some(item))
}
