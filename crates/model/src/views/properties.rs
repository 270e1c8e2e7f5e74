//! What must hold, and what must be seen.

use stateright::Property;

use super::{State, Subject, ViewsModel};

pub const EXCLUSION: &str = "two clients never act at once";
pub const TOKENS_RISE: &str = "every grant has a larger token than all before";
pub const TWO_GRANTS: &str = "the lock is granted twice";
pub const SURVIVES: &str = "a client acts in a later view than it entered in";
pub const OUTLIVES: &str = "a client acts while its member is down";
/// Checked at the end of walks: see [`ViewsModel::walk`].
pub const HEALS: &str = "every client that waits enters once there are no more faults";

pub(super) fn all<P: Subject>() -> Vec<Property<ViewsModel<P>>> {
    vec![
        Property::always(EXCLUSION, |_, state| exclusion(state)),
        Property::always(TOKENS_RISE, |_, state: &State<P>| !state.token_fell),
        Property::sometimes(TWO_GRANTS, |_, state: &State<P>| state.grants >= 2),
        Property::sometimes(SURVIVES, |_, state: &State<P>| {
            state.clients.iter().zip(&state.nodes).any(|(client, node)| {
                let floor = node.as_ref().map(|driver| driver.machine().views().seat().floor());
                client.acts() && client.holds < floor
            })
        }),
        Property::sometimes(OUTLIVES, |_, state: &State<P>| {
            state.clients.iter().zip(&state.nodes).any(|(client, node)| client.acts() && node.is_none())
        }),
    ]
}

pub(super) fn exclusion<P: Subject>(state: &State<P>) -> bool {
    state.clients.iter().filter(|client| client.acts()).count() <= 1
}
