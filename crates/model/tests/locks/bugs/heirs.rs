//! Bugs of heirs.

use locks::LockName;
use locks::wire::{Refusal, RequestId, SessionId};

use super::{
    Bug, Buggy, CentralMsg, CentralTimer, Context, Effect, Entry, Input, List, NodeId, ServiceCommand, ServiceEvent,
    Table, ToClerk, ToClient, Token, entries,
};

/// What the bug does behind the step.
pub(super) enum Spoils {
    Nothing,
    /// All voters seem to have acknowledged all notes.
    Acknowledges,
    /// These holders are freed.
    Frees(Vec<(LockName, Token)>),
    /// These holders are freed where the session has no entry of the lock any more.
    FreesWithout(SessionId, Vec<(LockName, Token)>),
}

/// Is it behind another entry of its lock?
fn is_heir(table: &Table, entry: &Entry) -> bool {
    table.entries(&entry.name).next().is_some_and(|(first, _)| first != entry.token)
}

fn has_heir(table: &Table, entry: &Entry) -> bool {
    table.entries(&entry.name).any(|(token, _)| token > entry.token)
}

/// The other entries of the locks that this session holds or is the heir of.
fn others(table: &Table, session: SessionId) -> Vec<(LockName, Token)> {
    let with = |entry: &Entry| table.entries(&entry.name).any(|(_, holder)| holder.session == session);
    let others = entries(table).filter(|entry| entry.holder.session != session && with(entry));
    others.map(|entry| (entry.name, entry.token)).collect()
}

impl Buggy {
    fn table(&self) -> Option<&Table> {
        self.central.keeper().copy().map(|copy| &copy.table)
    }

    /// Changes what goes in, and says what is to be done behind it.
    pub(super) fn spoil(&mut self, ctx: &Context<'_>, input: &mut Input<Self>, list: &mut List) -> Spoils {
        let Some(bug) = Bug::of(ctx.dice) else { return Spoils::Nothing };
        let none = Table::default();
        let table = self.table().unwrap_or(&none);
        match (bug, &mut *input) {
            (Bug::HeirAtOnce, Input::Command(ServiceCommand::Message { message: ToClerk::Release { .. }, .. }))
            | (Bug::ExpiredIsGone, Input::Timer(CentralTimer::Session(_))) => return Spoils::Acknowledges,
            (Bug::HeirNotInstalled, Input::Message { message: CentralMsg::Install { chunk, .. }, .. }) => {
                let mut last = None;
                chunk.entries.retain(|entry| last.replace(entry.name.clone()) != Some(entry.name.clone()));
            }
            (Bug::HeirNotTakenOver, Input::Command(ServiceCommand::OfficeBegan { .. })) => {
                let kept = entries(table).filter(|entry| !is_heir(table, entry)).collect();
                self.keep(ctx, kept);
            }
            (Bug::ReservedNotTakenOver, Input::Command(ServiceCommand::OfficeBegan { .. })) => {
                let kept = entries(table).filter(|entry| entry.holder.request == RequestId(1)).collect();
                self.keep(ctx, kept);
            }
            (Bug::HeirBeforeHolder, Input::Command(ServiceCommand::OfficeBegan { .. })) => {
                let kept = entries(table).filter(|entry| !has_heir(table, entry)).collect();
                self.keep(ctx, kept);
            }
            (Bug::HeirExpiryFreesHolder, Input::Timer(CentralTimer::Session(session))) => {
                return Spoils::Frees(others(table, *session));
            }
            (
                Bug::FreesBoth,
                Input::Command(ServiceCommand::Message { message: ToClerk::Open { session, .. }, .. }),
            ) => {
                return Spoils::FreesWithout(*session, others(table, *session));
            }
            (
                Bug::GrantedHeirFreed,
                Input::Command(ServiceCommand::Message { message: ToClerk::Open { holds, .. }, .. }),
            ) => {
                let heir = |token: Token| entries(table).any(|entry| entry.token == token && is_heir(table, &entry));
                holds.retain(|held| !heir(held.token));
            }
            (
                Bug::WithdrawnHeir | Bug::TokenAgain,
                Input::Command(ServiceCommand::Message { message: ToClerk::Withdraw { .. }, .. }),
            ) => self.withdraw_heir(bug, input, list),
            _ => {}
        }
        Spoils::Nothing
    }

    /// The own copy is another one from now on.
    fn keep(&mut self, ctx: &Context<'_>, kept: Vec<Entry>) {
        if let Some(label) = self.own() {
            self.set_copy(ctx, label, kept);
        }
    }

    fn withdraw_heir(&mut self, bug: Bug, input: &mut Input<Self>, list: &mut List) {
        let Input::Command(ServiceCommand::Message { from, message: ToClerk::Withdraw { request }, .. }) = *input
        else {
            return;
        };
        let Some((session, token)) = self.heir(request) else { return };
        if bug == Bug::TokenAgain {
            self.spare = Some(token);
        } else if self.central.clerk().and_then(|clerk| clerk.sessions().get(session)?.stream()) == Some(from) {
            let message = ToClient::Refused { request, why: Refusal::Withdrawn };
            list.push(Effect::Announce(ServiceEvent::Tell { to: from, message }));
            *input = Input::Command(ServiceCommand::LeaseHolds);
        }
    }

    /// The heir with this request.
    fn heir(&self, request: RequestId) -> Option<(SessionId, Token)> {
        let table = self.table()?;
        let mut heirs = entries(table).filter(|entry| entry.holder.request == request && is_heir(table, entry));
        heirs.next().map(|entry| (entry.holder.session, entry.token))
    }

    pub(super) fn spoil_more(&mut self, ctx: &Context<'_>, spoils: Spoils, list: &mut List) {
        match spoils {
            Spoils::Nothing => {}
            Spoils::Acknowledges => {
                let (Some(epoch), Some(label)) = (self.epoch(), self.own()) else { return };
                let voters: Vec<NodeId> = ctx.view.others(ctx.me.id).map(|peer| peer.id).collect();
                for from in voters {
                    let message = CentralMsg::Ack { epoch, seq: label.seq };
                    self.run(ctx, Input::Message { from, message }, list);
                }
            }
            Spoils::Frees(freed) => self.free(ctx, freed, list),
            Spoils::FreesWithout(session, mut freed) => {
                let has = |name: &LockName| {
                    let table = self.table();
                    table.is_some_and(|table| table.entries(name).any(|(_, holder)| holder.session == session))
                };
                freed.retain(|(name, _)| !has(name));
                self.free(ctx, freed, list);
            }
        }
    }

    /// Nobody is told.
    fn free(&mut self, ctx: &Context<'_>, freed: Vec<(LockName, Token)>, list: &mut List) {
        for (name, token) in freed {
            let mut told = List::new();
            self.run(ctx, Input::Command(ServiceCommand::Unlock { name, token }), &mut told);
            let is_told = |effect: &Effect<_>| {
                let lost = |message: &ToClient| matches!(message, ToClient::Lost { .. });
                let Effect::Announce(event) = effect else { return false };
                matches!(event, ServiceEvent::Unlocked { .. })
                    || matches!(event, ServiceEvent::Tell { message, .. } if lost(message))
            };
            told.retain(|effect| !is_told(effect));
            list.extend(told);
        }
    }

    /// What a client hears.
    pub(super) fn respell(&self, bug: Option<Bug>, event: ServiceEvent) -> ServiceEvent {
        match event {
            ServiceEvent::Tell { to, message: ToClient::Granted { number, request, token } } => {
                let token = match (bug, self.spare) {
                    (Some(Bug::HolderToken), _) => Token::new(token.epoch(), 1),
                    (Some(Bug::TokenAgain), Some(spare)) if token > spare => spare,
                    _ => token,
                };
                ServiceEvent::Tell { to, message: ToClient::Granted { number, request, token } }
            }
            event => event,
        }
    }
}
