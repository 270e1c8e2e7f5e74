//! Answers calls of clients.

use std::time::Duration;

use client::{
    Amount, Announcement, Call, CallId, Cause, FailCode, Happened, Ordered, Reply, Request, Response, Transition,
    Workload,
};
use member::{OnClose, Role};
use transport::{ClientId, Net, codec, is_next_for_a_test};
use types::{InstanceId, NodeId, since_boot};

use super::orders::unknown;
use super::{Daemon, failed};
use crate::chaos::{self, Afterwards};
use crate::publisher::{STREAMS_MAX, Subscription};

impl Daemon {
    /// `now`: read from the clock after the call was read.
    pub(super) fn call(&mut self, client: ClientId, payload: &[u8], now: Duration) {
        let Ok(Call { id: call, instance, request }) = codec::decode(payload) else {
            if let Some(call) = unknown_request(payload) {
                return reply(&mut self.net, Subscription { client, call }, not_known());
            }
            // Without its number the call cannot be answered, and the client would wait for ever.
            tracing::warn!(%client, "sent bytes that are no call of this protocol version: connection closed");
            return self.drop_client(client);
        };
        let asked = Subscription { client, call };
        let refusal = self.clients.refusal(client, || self.net.client_address(client), &request);
        let answer = match request {
            _ if refusal.is_some() => refusal,
            Request::Lock(message) => self.lock_message(asked, message, now),
            request => self.answer(asked, instance, &request),
        };
        if let Some(response) = answer {
            reply(&mut self.net, asked, response);
        }
    }

    /// `None`: the answer comes later, or was given.
    fn answer(&mut self, asked: Subscription, instance: InstanceId, request: &Request) -> Option<Response> {
        let instance = if request.is_about_locks() { InstanceId::ELECTION } else { instance };
        let Some(running) = self.instances.get(&instance) else { return Some(unknown(instance)) };
        Some(match *request {
            Request::Status => Response::Status(Box::new(running.shown.status())),
            Request::Watch { everything } => {
                let Some(now) = self.present(instance) else { return Some(unknown(instance)) };
                if self.publisher.watchers.add(asked, instance, everything) {
                    Response::Announced(now)
                } else {
                    too_many_streams()
                }
            }
            Request::EndWatch { call } => {
                self.publisher.watchers.end(Subscription { call, ..asked });
                let leads = self.leads_now();
                self.locks.end_stream(Subscription { call, ..asked }, leads);
                Response::Done
            }
            Request::Introduce { ref name } => {
                self.clients.introduce(asked.client, name.clone());
                Response::Done
            }
            Request::Elect | Request::StepDown { .. } | Request::Transfer { .. } | Request::Pause { .. } => {
                let response = match *request {
                    Request::Transfer { to, hold } => self.transfer(instance, NodeId(to), hold),
                    Request::StepDown { rest_ms } => self.step_down(instance, rest_ms),
                    Request::Pause { paused } => self.pause(instance, paused),
                    _ => self.elect(instance),
                };
                if response == Response::Done {
                    self.record(asked.client, instance, request);
                }
                response
            }
            Request::Priority { value } => return self.order_priority(asked, instance, value),
            Request::Members => self.members(instance),
            Request::ChangeMembers(ref change) => return self.change_members(asked, instance, change),
            Request::Bootstrap => self.bootstrap(asked, instance),
            Request::History { after } => {
                if let Err(why) = self.pages.begin(asked.client) {
                    return Some(failed(FailCode::Failed, why));
                }
                if self.ledger.ask(asked, after) {
                    return None;
                }
                self.pages.end(asked.client);
                failed(FailCode::Failed, "the disk is too slow for the ledger: ask again later".into())
            }
            Request::Reload => {
                self.reload.begin(&self.config, self.id, Some(asked));
                return None;
            }
            Request::Attach { grace_ms } => {
                return if self.attach(asked, Duration::from_millis(grace_ms), instance) {
                    None
                } else {
                    Some(too_many_streams())
                };
            }
            Request::Work(work) => self.report_work(asked, instance, work),
            Request::LockSession => return self.lock_session(asked),
            Request::Lock(ref message) => return self.lock_message(asked, message.clone(), since_boot()),
            Request::Locks { ref only, ref after } => self.lock_page(only.as_ref(), after.as_ref()),
            Request::Unlock { ref name, token } => return self.unlock(asked, name, token),
            Request::Chaos(fault) => match chaos::apply(fault, &self.config, self.id, &mut self.net) {
                Err((code, reason)) => failed(code, reason),
                Ok(afterwards) => {
                    self.record(asked.client, instance, request);
                    self.faults_changed();
                    reply(&mut self.net, asked, Response::Done);
                    self.injected(afterwards);
                    return None;
                }
            },
        })
    }

    /// Announces what an operator did, so that the ledger has it.
    pub(super) fn record(&mut self, client: ClientId, instance: InstanceId, request: &Request) {
        let Some((access, name)) = self.clients.get(client) else { return };
        let (Some(order), Some(address)) = (request.order(), self.net.client_address(client)) else { return };
        self.publisher.publish(instance, Happened::Ordered(Ordered { order, instance, access, address, name }));
    }

    /// A process that hangs or dies cannot tell anything later, so it tells all before.
    fn injected(&mut self, afterwards: Afterwards) {
        if afterwards != Afterwards::Nothing {
            self.publisher.tell_all_watchers(&mut self.net);
            self.publisher.tell_subscribers();
        }
        self.net.flush_all();
        if afterwards == Afterwards::Die {
            self.ledger.settle();
        }
        afterwards.carry_out();
    }

    /// The present standing, for a watcher that has just subscribed or has missed announcements.
    pub(super) fn present(&self, instance: InstanceId) -> Option<Announcement> {
        let shown = &self.instances.get(&instance)?.shown;
        let now = shown.standing();
        let lease_until_ns = shown.lease_until_ns();
        let became = Transition { old: None, now, cause: Cause::Present, lease_until_ns };
        Some(self.publisher.stamp(instance, Happened::Became(became)))
    }

    /// False if this client may not attach once more.
    fn attach(&mut self, asked: Subscription, grace: Duration, instance: InstanceId) -> bool {
        let Some(running) = self.instances.get_mut(&instance) else { return false };
        // Asks the machine, not the visible state: voters may already know that no child depends on it.
        let leads = running.machine.standing().role == Role::Leader;
        let voters_first = leads && self.config.settings.on_close == OnClose::Immediate;
        // The end of this leadership is decided, and its announcement waits for the disk, perhaps behind that of its beginning:
        // no child may begin.
        let begun = running.shown.standing().role == Role::Leader || running.machine.is_to_announce_leadership();
        let ends = begun && !leads;
        running.attached.add((asked, grace), voters_first, ends, &mut self.net)
    }

    fn report_work(&mut self, asked: Subscription, instance: InstanceId, work: Workload) -> Response {
        if !work.is_valid() {
            return failed(FailCode::BadRequest, format!("an amount of work is at most {}", Amount::MAX));
        }
        let running = self.instances.get_mut(&instance);
        if running.is_some_and(|running| running.attached.report(asked.client, work)) {
            return Response::Done;
        }
        failed(FailCode::BadRequest, "this client is not attached: attach first, over the same connection".into())
    }

    fn faults_changed(&mut self) {
        let faults = chaos::in_force(&self.net);
        self.process.set_faults(faults.clone());
        self.publisher.publish(InstanceId::ELECTION, Happened::Faults(faults));
    }

    pub(super) fn drop_client(&mut self, client: ClientId) {
        self.net.close_client(client);
        self.client_gone(client);
    }

    pub(super) fn client_gone(&mut self, client: ClientId) {
        self.clients.gone(client);
        self.publisher.watchers.gone(client);
        let leads = self.leads_now();
        self.locks.gone(client, leads);
        self.instances.values_mut().for_each(|running| running.attached.gone(client));
    }
}

pub(super) fn too_many_streams() -> Response {
    let why = format!("one connection has at most {STREAMS_MAX} streams: end some, or open another connection");
    failed(FailCode::BadRequest, why)
}

pub(super) fn reply(net: &mut Net, to: Subscription, response: Response) {
    match codec::to_vec(&Reply { to: to.call, response }) {
        Ok(bytes) => {
            net.reply(to.client, &bytes);
        }
        Err(error) => tracing::error!(%error, "a reply cannot be encoded"),
    }
}

/// The number of a call whose request is of a kind that only a later version knows.
fn unknown_request(payload: &[u8]) -> Option<CallId> {
    let (call, _, kind): (CallId, InstanceId, u32) = codec::decode_newer(payload).ok()?;
    (kind as usize >= Request::ALL.len()).then_some(call)
}

fn not_known() -> Response {
    if is_next_for_a_test() {
        // The next version knows one request more.
        return Response::Done;
    }
    let version = crate::version();
    failed(
        FailCode::BadRequest,
        format!("this request is not known to version {version}: upgrade the member, or use the ctl of its release"),
    )
}
