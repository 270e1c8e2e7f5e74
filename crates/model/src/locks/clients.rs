//! The clients: the shipped session machine, its driver's clock, and its connections.

use std::time::Duration;

use locks::session::Output;

use super::{
    Breach, LockModel, RequestId, SendNumber, ServiceCommand, State, Stream, StreamId, Subject, ToClerk, VecDeque,
};

impl<P: Subject> LockModel<P> {
    /// The client makes its next request.
    pub(super) fn ask(&self, state: &mut State<P>, client: usize) {
        state.left.requests[client] -= 1;
        let at = state.client(client);
        let (name, mode) = self.requests[client][usize::from(at.asked)].clone();
        at.asked += 1;
        let request = RequestId(at.asked.into());
        at.waits.insert(request, name.clone());
        let mut out = Vec::new();
        at.session.acquire(request, (name, mode, None), &mut out);
        self.carry_out_client(state, client, out);
    }

    pub(super) fn release(&self, state: &mut State<P>, client: usize, request: RequestId) {
        state.left.releases -= 1;
        let mut out = Vec::new();
        state.client(client).session.release(request, false, &mut out);
        self.carry_out_client(state, client, out);
    }

    pub(super) fn withdraw(&self, state: &mut State<P>, client: usize, request: RequestId) {
        state.left.withdrawals -= 1;
        let at = state.client(client);
        at.waits.remove(&request);
        let mut out = Vec::new();
        at.session.withdraw(request, &mut out);
        self.carry_out_client(state, client, out);
    }

    pub(super) fn keep_alive(&self, state: &mut State<P>, client: usize) {
        state.left.keep_alives -= 1;
        let mut out = Vec::new();
        state.client(client).session.keep_alive(&mut out);
        self.carry_out_client(state, client, out);
    }

    /// Leaves its connection and opens another one, to this member.
    pub(super) fn moves(&self, state: &mut State<P>, client: usize, node: usize) {
        state.left.moves[client] -= 1;
        self.connect(state, client, node);
    }

    pub(super) fn connect(&self, state: &mut State<P>, client: usize, node: usize) {
        Self::disconnect(state, client);
        let stream = StreamId(state.opened);
        state.opened += 1;
        let (up, down) = (VecDeque::new(), VecDeque::new());
        state.streams.insert(stream, Stream { client, node, up, down, closed: false, gone: false });
        state.client(client).stream = Some(stream);
        self.tell(state, node, ServiceCommand::StreamOpened(stream));
    }

    fn disconnect(state: &mut State<P>, client: usize) {
        let at = state.client(client);
        at.session.disconnected();
        let Some(left) = at.stream.take() else { return };
        let Some(stream) = state.streams.get_mut(&left) else { return };
        stream.closed = true;
        stream.down.clear();
        if stream.gone {
            state.streams.remove(&left);
        }
    }

    /// Reads the next message, or sees that the member is gone.
    pub(super) fn listen(&self, state: &mut State<P>, client: usize) {
        let Some(id) = state.clients[client].stream else { return };
        let message = state.streams.get_mut(&id).and_then(|stream| stream.down.pop_front());
        let Some(message) = message else { return Self::disconnect(state, client) };
        let mut out = Vec::new();
        state.client(client).session.hear(message, |_| Duration::ZERO, &mut out);
        self.carry_out_client(state, client, out);
    }

    fn carry_out_client(&self, state: &mut State<P>, client: usize, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Say(message) => self.say(state, client, message),
                Output::Answered(number, terms) => {
                    assert!(
                        terms.right() <= Duration::from_secs(self.times.right.into()),
                        "the model's right is shorter"
                    );
                    let at = state.client(client);
                    let right = if self.breach == Some(Breach::RightFromArrival) {
                        self.times.right
                    } else {
                        at.sent.get(&number).copied().unwrap_or(0)
                    };
                    at.right = at.right.max(right);
                    at.sent.retain(|&sent, _| sent > number);
                }
                Output::Granted(request, _) | Output::Refused(request, _) | Output::Lost(request) => {
                    state.client(client).waits.remove(&request);
                }
                Output::Over(_) => {
                    let at = state.client(client);
                    at.waits.clear();
                    at.sent.clear();
                    at.right = 0;
                }
                Output::Opened | Output::Released(_) | Output::Unavailable { .. } => {}
            }
        }
    }

    fn say(&self, state: &mut State<P>, client: usize, message: ToClerk) {
        let at = state.client(client);
        if let Some(number) = number(&message) {
            at.sent.insert(number, self.times.right);
        }
        let stream = at.stream.and_then(|id| state.streams.get_mut(&id));
        if let Some(stream) = stream.filter(|stream| !stream.gone) {
            stream.up.push_back(message);
        }
    }
}

fn number(message: &ToClerk) -> Option<SendNumber> {
    match *message {
        ToClerk::Open { number, .. } | ToClerk::KeepAlive { number } | ToClerk::Acquire { number, .. } => Some(number),
        ToClerk::Withdraw { .. } | ToClerk::Release { .. } | ToClerk::Close => None,
    }
}
