//! Runs the machine of every lock, and lets the clients of this member in and out.

use algorithms::drive::{Effect, Effects};
use algorithms::{Access, Ctx, Data, Input, Link, Mutex, MutexSettings, Outbox, Protocol, Section, Stage, Want};
use types::{NodeId, Token};

use super::locks::Inside;
use super::messages::{Full, ViewsMsg};
use super::seat::Phase;
use super::{Context, Msg, Views, ViewsTimer};
use crate::name::LockName;
use crate::wire::{Mode, RequestId, SessionId, ToClient};

impl<M: Mutex> Views<M>
where
    M::Link: Data,
{
    fn machine_settings(&self, ctx: &Context<'_>, begins: Option<NodeId>) -> MutexSettings {
        let (floor, idle_hold) = (self.seat.floor(), ctx.settings.idle_hold);
        MutexSettings { holder: begins, floor, idle_hold, machine: ctx.settings.machine, clock: 0 }
    }

    /// Runs a step of a machine, or its start, and carries out its effects. Returns how many messages it sent.
    fn run(
        &mut self,
        ctx: &Context<'_>,
        name: &LockName,
        run: impl FnOnce(&Ctx<'_, MutexSettings>, Option<M>, &mut Effects<M>) -> Option<M>,
        out: &mut impl Outbox<Self>,
    ) -> usize {
        let Some(begins) = self.locks.get(name).map(|lock| lock.begins) else { return 0 };
        let settings = self.machine_settings(ctx, begins);
        let inner = Ctx { me: ctx.me, view: &self.view, settings: &settings, dice: ctx.dice };
        let mut effects = Effects::default();
        let Some(lock) = self.locks.get_mut(name) else { return 0 };
        lock.machine = run(&inner, lock.machine.take(), &mut effects);
        let mut sent = 0;
        while let Some(effect) = effects.pop() {
            sent += usize::from(matches!(effect, Effect::Send { .. }));
            self.effect(ctx, name, effect, out);
        }
        sent
    }

    fn effect(&mut self, ctx: &Context<'_>, name: &LockName, effect: Effect<M>, out: &mut impl Outbox<Self>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        match effect {
            Effect::Send { to, message, .. } => {
                let far = self.view.position(ctx.me.id).and_then(|me| to.far_end(me, &self.view));
                if let Some((at, link)) = far
                    && let Some(member) = self.view.members().get(at)
                {
                    let view = self.seat.view;
                    let message = ViewsMsg::InView { view, name: name.clone(), link, message };
                    self.say(ctx, member.id, message, out);
                }
            }
            Effect::SetTimer(timer, after) => {
                lock.timers.insert(timer);
                out.set_timer(ViewsTimer::Machine(lock.number, timer), after);
            }
            Effect::CancelTimer(timer) => {
                lock.timers.remove(&timer);
                out.cancel_timer(ViewsTimer::Machine(lock.number, timer));
            }
            Effect::Announce(Section::Enter(token)) => self.enter(ctx, name, token, out),
            Effect::Persist(()) | Effect::Store(()) => {}
        }
    }

    pub(super) fn start_machine(&mut self, ctx: &Context<'_>, name: &LockName, out: &mut impl Outbox<Self>) {
        let missing = self.locks.get(name).is_some_and(|lock| lock.machine.is_none());
        if missing && self.seat.phase == Phase::Runs {
            self.run(ctx, name, |inner, _, effects| Some(M::start(inner, None, effects)), out);
        }
    }

    fn step_machine(
        &mut self,
        ctx: &Context<'_>,
        name: &LockName,
        input: Input<M>,
        out: &mut impl Outbox<Self>,
    ) -> usize {
        let step = |inner: &Ctx<'_, MutexSettings>, machine: Option<M>, effects: &mut Effects<M>| {
            let mut machine = machine?;
            machine.step(inner, input, effects);
            Some(machine)
        };
        self.run(ctx, name, step, out)
    }

    pub(super) fn machine_timer(
        &mut self,
        ctx: &Context<'_>,
        number: u32,
        timer: <M as Protocol>::Timer,
        out: &mut impl Outbox<Self>,
    ) {
        let Some(name) = self.locks.numbered(number).cloned() else { return };
        if self.locks.get_mut(&name).is_some_and(|lock| lock.timers.remove(&timer)) {
            self.step_machine(ctx, &name, Input::Timer(timer), out);
            self.attend(ctx, &name, out);
        }
    }

    /// A message of this view, whose machines run.
    pub(super) fn deliver(&mut self, ctx: &Context<'_>, from: NodeId, message: Msg<M>, out: &mut impl Outbox<Self>) {
        let (ViewsMsg::InView { name, .. } | ViewsMsg::Wake { name, .. } | ViewsMsg::Left { name, .. }) = &message
        else {
            return;
        };
        let name = name.clone();
        if self.locks.entry(&name, ctx.settings.locks.limits.names).is_none() {
            // The machine of the sender waits for this one: a new view forgets names that are not in use.
            self.full = Some(Full::Names);
            return;
        }
        self.start_machine(ctx, &name, out);
        match message {
            ViewsMsg::InView { link, message, .. } => {
                let far = self.view.position(ctx.me.id).and_then(|me| link.far_end(me, &self.view));
                if far.and_then(|(at, _)| self.view.members().get(at)).is_some_and(|member| member.id == from) {
                    self.step_machine(ctx, &name, Input::Message { from: link, message }, out);
                }
            }
            ViewsMsg::Left { .. } => {
                if let Some(lock) = self.locks.get_mut(&name) {
                    lock.guests.remove(&from);
                }
            }
            _ => {}
        }
        self.attend(ctx, &name, out);
    }

    /// May clients of this member enter now? Under classic safety only while all members are there.
    fn may_enter(&self, ctx: &Context<'_>) -> bool {
        let complete = ctx.settings.quorum || self.apart(ctx.me.id).is_empty();
        self.serves.is_some() && self.full != Some(Full::Tokens) && complete
    }

    /// Brings the machine in line with the clients: it leaves a section that no client is in, and asks for the first that
    /// waits. Ends, because a machine that enters finds a client that waits or is not asked again.
    pub(super) fn attend(&mut self, ctx: &Context<'_>, name: &LockName, out: &mut impl Outbox<Self>) {
        loop {
            let may_enter = self.may_enter(ctx);
            let Some(lock) = self.locks.get(name) else { return };
            let waits = lock.queue.front().map(|waiter| waiter.mode);
            let stage = lock.machine.as_ref().map(Mutex::stage);
            match (stage, waits) {
                (Some(Stage::Held), _) if lock.inside.is_none() && lock.guests.is_empty() => {
                    self.step_machine(ctx, name, Input::Command(Want::Exit), out);
                }
                (Some(Stage::Released), Some(mode)) if may_enter && lock.inside.is_none() => {
                    self.ask(ctx, name, mode, out);
                }
                (None, Some(_)) if self.seat.phase == Phase::Runs && may_enter => self.start_machine(ctx, name, out),
                _ => return,
            }
        }
    }

    fn ask(&mut self, ctx: &Context<'_>, name: &LockName, mode: Mode, out: &mut impl Outbox<Self>) {
        let access = if mode == Mode::Shared { Access::Shared } else { Access::Exclusive };
        let sent = self.step_machine(ctx, name, Input::Command(Want::Request(access)), out);
        let waits =
            self.locks.get(name).and_then(|lock| lock.machine.as_ref()).map(Mutex::stage) == Some(Stage::Wanted);
        if waits && sent == 0 {
            let view = self.seat.view;
            let others: Vec<NodeId> = self.view.others(ctx.me.id).map(|member| member.id).collect();
            for other in others {
                self.say(ctx, other, ViewsMsg::Wake { view, name: name.clone() }, out);
            }
        }
    }

    /// The machine is in its section: the first client that waits is too, with all readers at the head.
    fn enter(&mut self, ctx: &Context<'_>, name: &LockName, token: Token, out: &mut impl Outbox<Self>) {
        if self.seat.view.count(token).is_none_or(|count| count > ctx.settings.tokens) {
            self.full = Some(Full::Tokens);
        }
        if !self.may_enter(ctx) {
            return;
        }
        let Some(lock) = self.locks.get_mut(name) else { return };
        let taken = lock.take_next();
        let Some(mode) = taken.first().map(|waiter| waiter.mode) else { return };
        let holders = taken.iter().map(|waiter| (waiter.session, waiter.request)).collect();
        lock.inside = Some(Inside { token, mode, holders });
        for waiter in taken {
            let (session, request) = (waiter.session, waiter.request);
            out.cancel_timer(ViewsTimer::Wait(session, request));
            if let Some(claim) = self.clients.sessions.get_mut(&session).and_then(|of| of.claims.get_mut(&request)) {
                claim.token = Some(token);
            }
            let (number, beat) = waiter.unanswered.map_or((None, 0), |(number, beat)| (Some(number), beat));
            self.tell(session, beat, ToClient::Granted { number, request, token }, out);
        }
    }

    /// A client of this member is out of its section.
    pub(super) fn left(
        &mut self,
        ctx: &Context<'_>,
        name: &LockName,
        of: (SessionId, RequestId),
        out: &mut impl Outbox<Self>,
    ) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        let Some(inside) = &mut lock.inside else { return };
        inside.holders.remove(&of);
        if inside.holders.is_empty() {
            lock.inside = None;
            self.leave_host(ctx, name, out);
            self.attend(ctx, name, out);
        }
    }

    /// Readers that were inside when the view began are out: the participant that stands for them is told.
    pub(super) fn leave_host(&mut self, ctx: &Context<'_>, name: &LockName, out: &mut impl Outbox<Self>) {
        let Some(host) = self.locks.get_mut(name).and_then(|lock| lock.host.take()) else { return };
        let view = self.seat.view;
        self.say(ctx, host, ViewsMsg::Left { view, name: name.clone() }, out);
    }

    /// The clients inside lose the lock, and are told.
    pub(super) fn lose(&mut self, ctx: &Context<'_>, name: &LockName, out: &mut impl Outbox<Self>) {
        let Some(inside) = self.locks.get_mut(name).and_then(|lock| lock.inside.take()) else { return };
        for (session, request) in inside.holders {
            if let Some(of) = self.clients.sessions.get_mut(&session) {
                of.claims.remove(&request);
            }
            self.tell(session, 0, ToClient::Lost { request }, out);
        }
        self.leave_host(ctx, name, out);
        self.attend(ctx, name, out);
    }
}
