//! What must hold, and what must be seen.

use super::{State, Subject, ViewsModel};
use crate::properties::Properties;

pub const EXCLUSION: &str = "two clients never act at once";
pub const TOKENS_RISE: &str = "every grant has a larger token than all before";
pub const TWO_GRANTS: &str = "the lock is granted twice";
pub const SURVIVES: &str = "a client acts in a later view than it entered in";
pub const OUTLIVES: &str = "a client acts while its member is down";
/// Checked at the end of walks: see [`ViewsModel::walk`].
pub const HEALS: &str = "every client that waits enters once there are no more faults";

pub(super) fn of<P: Subject>(model: &ViewsModel<P>) -> Properties<ViewsModel<P>> {
    let mut all = Properties::of(model);
    all.always(EXCLUSION, |_, state| exclusion(state));
    all.always(TOKENS_RISE, |_, state| !state.token_fell);
    all.sometimes(TWO_GRANTS, |_, state| state.grants >= 2);
    all.sometimes(SURVIVES, |_, state| {
        state.clients.iter().zip(&state.nodes).any(|(client, node)| {
            let floor = node.as_ref().map(|driver| driver.machine().views().seat().floor());
            client.acts() && client.holds < floor
        })
    });
    all.sometimes(OUTLIVES, |_, state| {
        state.clients.iter().zip(&state.nodes).any(|(client, node)| client.acts() && node.is_none())
    });
    all
}

pub(super) fn exclusion<P: Subject>(state: &State<P>) -> bool {
    state.clients.iter().filter(|client| client.acts()).count() <= 1
}
