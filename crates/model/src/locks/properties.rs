//! What must hold of the lock service, and what must be possible so that the model is not vacuous.

use locks::central::{Clerk, Heir, Holder, Place, Session};

use super::{
    Arc, Budget, Central, CentralTimer, Client, Flaw, LockModel, LockName, Mode, RequestId, SessionId, Shows, State,
    Subject, Token,
};
use crate::properties::Properties;

pub const EXCLUSION: &str = "M1: no two sessions act on one exclusive lock";
pub const TOKENS: &str = "M2: the tokens with which sessions act on a lock rise";
pub const PASSED_ON: &str = "M3: no clerk has given a lock on while a session acts on it";
pub const ONE_HOLDER: &str = "a clerk's table has one holder of an exclusive lock, and at most the first in the line as its heir, or it is reserved";
pub const NOTED: &str = "a lock that a session acts on is known to a majority";
pub const UNDER_LEASE: &str = "a clerk answers while its lease runs";
pub const NOT_EARLY: &str = "without the copies of a majority no office opens before all sessions have expired";
pub const NOT_REVIVED: &str = "what is released or withdrawn is not held or waited for, what is held stays";
pub const SERVED: &str =
    "when nothing is on its way, every session knows what it holds, and every waiter waits for a holder";

pub(super) fn of<P: Subject>(model: &LockModel<P>) -> Properties<LockModel<P>> {
    let mut all = Properties::of(model);
    all.always(EXCLUSION, |model, state| {
        let [one, other] = &state.clients;
        !one.acts().any(|(name, token)| {
            let conflicts = |(also, second): (&LockName, Token)| {
                let exclusive = |at, token| mode(model, state, at, token) == Some(Mode::Exclusive);
                also == name && (exclusive(0, token) || exclusive(1, second))
            };
            other.acts().any(conflicts)
        })
    });
    all.always(TOKENS, |_, state| !state.flaws.contains(&Flaw::TokenWentBack));
    all.always(PASSED_ON, passed_on);
    all.always(ONE_HOLDER, |_, state| state.clerk().is_none_or(|(_, central)| one_holder(central)));
    all.always(NOTED, noted);
    all.always(UNDER_LEASE, |_, state| !state.flaws.contains(&Flaw::NoLease));
    all.always(NOT_EARLY, |_, state| !state.flaws.contains(&Flaw::TooEarly));
    all.always(NOT_REVIVED, |_, state| !state.flaws.contains(&Flaw::Revived));
    all.always(SERVED, served);
    possible(model.budget, &mut all);
    match model.shows {
        Shows::LaterClerks if model.budget.has_bids() => later_clerks(&mut all),
        Shows::LaterClerks => {}
        Shows::Heirs => heirs(model.budget, &mut all),
        Shows::Reservations => reservations(model.budget, &mut all),
    }
    all
}

/// What must be seen of reservations, from a lock on that was reserved for the second request of the first client.
fn reservations<P: Subject>(budget: Budget, all: &mut Properties<LockModel<P>>) {
    let later = budget.has_bids();
    all.sometimes_if(!later, "a session acts on a lock that was reserved for it", |_, state| {
        let notes = state.clerk().and_then(|(_, central)| central.keeper().copy()).map(|copy| copy.label.seq);
        let [first, _] = &state.clients;
        let acts = |request| {
            let held = first.session.holds().find(|held| held.0 == request);
            held.is_some_and(|(_, _, token)| first.acts().any(|(_, with)| with == token))
        };
        // An entry, its end and the reservation.
        notes == Some(3) && acts(RequestId(2))
    });
    all.sometimes_if(later, "a later clerk has taken over a lock that was reserved", |_, state| {
        let Some((_, central)) = state.clerk() else { return false };
        let claims = central.clerk().filter(|clerk| clerk.epoch().0 > 1).map(Clerk::sessions);
        let second = |session: &Session| session.requests().contains_key(&RequestId(2));
        claims.is_some_and(|sessions| sessions.iter().any(|(_, session)| second(session)))
    });
}

/// What must be seen of heirs.
fn heirs<P: Subject>(budget: Budget, all: &mut Properties<LockModel<P>>) {
    let later = budget.has_bids();
    let attaches = !later || budget.moves[1] > 0;
    all.sometimes_if(
        budget.releases > 0 && attaches,
        "an heir acts before the end of the holder before it is known to a majority",
        |model, state| {
            let stale = |at: usize, name: &LockName, token: Token| {
                let copy = state.central(at).and_then(|central| central.keeper().copy());
                copy.is_some_and(|copy| copy.table.entries(name).any(|(other, _)| other < token))
            };
            let mut acts = state.clients.iter().flat_map(|client| client.acts());
            acts.any(|(name, token)| model.is_majority(state, |at| stale(at, name, token)))
        },
    );
    all.sometimes_if(later, "a later clerk has a holder and an heir in its table", |_, state| {
        let Some((_, central)) = state.clerk() else { return false };
        central.clerk().is_some_and(|clerk| clerk.epoch().0 > 1 && clerk.queues().heirs() > 0)
    });
    all.sometimes_if(later && attaches, "a session acts with the token of an heir of an earlier clerk", |_, state| {
        let Some((_, central)) = state.clerk() else { return false };
        let (Some(clerk), [_, second]) = (central.clerk(), &state.clients) else { return false };
        let held = |token| {
            clerk.sessions().iter().any(|(_, known)| known.requests().values().any(|claim| claim.token == Some(token)))
        };
        clerk.epoch().0 > 1 && second.acts().any(|(_, token)| token.epoch() < clerk.epoch() && held(token))
    });
}

/// What must be seen, where the budget permits it.
fn possible<P: Subject>(budget: Budget, all: &mut Properties<LockModel<P>>) {
    all.sometimes("a session acts on a lock", |_, state| {
        state.clients.iter().any(|client| client.acts().next().is_some())
    });
    all.sometimes_if(
        budget.requests[0] > 0 && budget.requests[1] > 0,
        "nothing is on its way, and a session waits",
        |_, state| quiet(state).is_some() && state.clients.iter().any(|client| !client.waits.is_empty()),
    );
    all.sometimes_if(
        budget.requests[0] > 0 && budget.requests[1] > 0 && budget.releases > 0,
        "a lock passes from one session to the other",
        |_, state| {
            let [one, other] = &state.clients;
            let gave = |client: &Client| client.asked > 0 && client.waits.is_empty() && client.right > 0;
            let acts = |client: &Client| client.acts().next().is_some();
            let holds = |client: &Client| client.session.holds().next().is_some();
            (acts(one) && gave(other) && !holds(other)) || (acts(other) && gave(one) && !holds(one))
        },
    );
    all.sometimes_if(budget.changes > 0, "the last voters are in force", |model, state| {
        state.list + 1 == model.lists.len()
    });
    all.sometimes_if(budget.restarts > 0, "a restarted voter has a copy", |_, state| {
        let has = |at: usize| state.central(at).is_some_and(|central| central.keeper().copy().is_some());
        (0..state.nodes.len()).any(|at| state.nodes[at].life > 1 && has(at))
    });
}

/// What must be seen where a member may bid.
fn later_clerks<P: Subject>(all: &mut Properties<LockModel<P>>) {
    all.sometimes("a session acts under a later clerk than granted the lock", |_, state| {
        let Some((at, central)) = state.clerk() else { return false };
        let epoch = central.clerk().map(Clerk::epoch);
        state.clients.iter().any(|client| {
            let here = client.stream.and_then(|id| state.streams.get(&id)).is_some_and(|stream| stream.node == at);
            here && client.session.is_open() && client.acts().any(|(_, token)| Some(token.epoch()) < epoch)
        })
    });
    all.sometimes("a later clerk gives a lock", |_, state| {
        let Some((_, central)) = state.clerk() else { return false };
        let epoch = central.clerk().map(Clerk::epoch).filter(|epoch| epoch.0 > 1);
        let tokens = central.keeper().copy().into_iter().flat_map(|copy| copy.table.iter());
        tokens.map(|(place, _)| place.token).any(|token| Some(token.epoch()) == epoch)
    });
}

fn mode<P: Subject>(model: &LockModel<P>, state: &State<P>, client: usize, token: Token) -> Option<Mode> {
    let held = state.clients[client].session.holds().find(|&(_, _, held)| held == token)?;
    let RequestId(number) = held.0;
    model.requests[client].get(usize::try_from(number).ok()?.checked_sub(1)?).map(|&(_, mode)| mode)
}

/// Which sessions hold locks is the same for the clerk's table, its claims and its queues. A lock that is reserved has that entry
/// and nothing else.
fn one_holder(central: &Central) -> bool {
    let (Some(clerk), Some(copy)) = (central.clerk(), central.keeper().copy()) else { return true };
    let claim = |holder: &Holder| clerk.sessions().get(holder.session)?.requests().get(&holder.request)?.token;
    let heir = |name: &LockName| clerk.queues().first(name)?.heir.map(|heir| heir.token);
    let sound = |(place, holder): (&Place, &Holder)| {
        if let Some(reserved) = clerk.reserved().get(&place.name) {
            let same =
                (reserved.session, reserved.request, reserved.token) == (holder.session, holder.request, place.token);
            return same && copy.table.entries(&place.name).count() == 1 && !clerk.queues().has(&place.name);
        }
        let mut entries = copy.table.entries(&place.name).map(|(token, _)| token);
        if holder.mode != Mode::Exclusive || entries.next() == Some(place.token) {
            return claim(holder) == Some(place.token);
        }
        entries.next() == Some(place.token) && heir(&place.name) == Some(place.token) && claim(holder).is_none()
    };
    copy.table.iter().all(sound)
}

/// No session but the one that acts holds that lock in the clerk's table, unless both may. A table that was taken over may have
/// the one that acts as the heir still, and the holder before it.
fn passed_on<P: Subject>(model: &LockModel<P>, state: &State<P>) -> bool {
    let Some((_, central)) = state.clerk() else { return true };
    let (Some(clerk), Some(copy)) = (central.clerk(), central.keeper().copy()) else { return true };
    state.clients.iter().enumerate().all(|(at, client)| {
        let id = client.session.id();
        client.acts().all(|(name, token)| {
            let exclusive = mode(model, state, at, token) == Some(Mode::Exclusive);
            let taken_over = || {
                let first = clerk.queues().first(name).filter(|first| first.session == id);
                first.is_some_and(|first| first.heir == Some(Heir { token, noted: 0 })) && token.epoch() < clerk.epoch()
            };
            let fits = |(_, holder): (Token, &Holder)| {
                holder.session == id || !(exclusive || holder.mode == Mode::Exclusive) || taken_over()
            };
            copy.table.holders(name).all(fits)
        })
    })
}

/// A voter that has restarted may have had it.
fn noted<P: Subject>(model: &LockModel<P>, state: &State<P>) -> bool {
    let knows = |at: usize, place: &Place| {
        let copy = state.central(at).and_then(|central| central.keeper().copy());
        let crashed = state.nodes[at].life > 1 || state.nodes[at].driver.is_none();
        crashed || copy.is_some_and(|copy| copy.table.get(place).is_some())
    };
    let lists = || model.lists[..=state.list].iter().rev().take(2);
    state.clients.iter().flat_map(|client| client.acts()).all(|(name, token)| {
        let place = Place { name: name.clone(), token };
        lists().any(|list| 2 * list.iter().filter(|&&at| knows(at, &place)).count() > list.len())
    })
}

/// The clerk, if nothing is on its way and nothing will happen by itself but the end of sessions.
fn quiet<P: Subject>(state: &State<P>) -> Option<(usize, &Central)> {
    let owes = |at: usize| state.central(at).is_some_and(Central::owes);
    let still = state.wires.is_empty()
        && !(0..state.nodes.len()).any(owes)
        && state.bid.is_none()
        && state
            .streams
            .values()
            .all(|stream| stream.up.is_empty() && stream.down.is_empty() && !stream.closed && !stream.gone);
    let at = state.lease.as_ref().filter(|_| still)?.at;
    let waits = |(timer, left): (CentralTimer, Option<u8>)| {
        left == Some(0) || matches!(timer, CentralTimer::Requeue | CentralTimer::Flush)
    };
    let central = state.central(at).filter(|_| state.is_leased(at))?;
    (!state.nodes[at].timers().any(waits)).then_some((at, central))
}

fn served<P: Subject>(model: &LockModel<P>, state: &State<P>) -> bool {
    let Some((at, central)) = quiet(state) else { return true };
    let informed = |voter: usize| {
        let granted =
            state.nodes[voter].granted.map(|(epoch, _)| epoch) == state.lease.as_ref().map(|lease| lease.epoch);
        granted && state.central(voter).is_some_and(|central| central.keeper().granted().is_some())
    };
    // Without a majority that listens to it the clerk can grant nothing.
    if !model.is_majority(state, |voter| voter == at || informed(voter)) {
        return true;
    }
    let copies = |voter: usize| {
        (voter == at || informed(voter))
            && state.central(voter).is_some_and(|central| central.keeper().copy().is_some())
    };
    let Some(clerk) = central.clerk() else { return !model.is_majority(state, copies) };
    let here = |client: &&Arc<Client>| {
        let stream = client.stream.and_then(|id| state.streams.get(&id));
        client.session.is_open() && stream.is_some_and(|stream| stream.node == at)
    };
    state.clients.iter().filter(here).all(|client| knows_all(central, clerk, client))
}

/// Do the client and the clerk agree on what it holds, and does each of its requests wait for another holder?
fn knows_all(central: &Central, clerk: &Clerk, client: &Client) -> bool {
    let id = client.session.id();
    let Some(session) = clerk.sessions().get(id) else { return false };
    let claims = session.requests();
    let held = |(name, session): (&LockName, SessionId)| {
        let holders = central.keeper().copy().into_iter().flat_map(|copy| copy.table.holders(name));
        holders.map(|(_, holder)| holder.session).any(|holder| holder != session)
    };
    let waits = client
        .waits
        .iter()
        .all(|(request, name)| claims.get(request).is_some_and(|claim| claim.token.is_none()) && held((name, id)));
    let holds = client
        .session
        .holds()
        .all(|(request, _, token)| claims.get(&request).is_some_and(|claim| claim.token == Some(token)));
    let known =
        claims.keys().all(|request| client.waits.contains_key(request) || client.session.token(*request).is_some());
    waits && holds && known
}
