//! The `raft` crate with pre-vote and the check of the quorum. Its timeouts are not seedable.

use raft::eraftpb::Message;
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};

use crate::world::{Node, TIMEOUT};

pub struct Theirs {
    node: RawNode<MemStorage>,
    disk: MemStorage,
    sent: Vec<(u64, Message)>,
}

impl Theirs {
    /// As its documentation orders it: records before the messages that depend on them.
    fn carry_out(&mut self) {
        while self.node.has_ready() {
            let mut ready = self.node.ready();
            self.send(ready.take_messages());
            let mut disk = self.disk.wl();
            disk.append(ready.entries()).expect("entries follow each other");
            if let Some(state) = ready.hs() {
                disk.set_hardstate(state.clone());
            }
            drop(disk);
            self.send(ready.take_persisted_messages());
            let mut rest = self.node.advance(ready);
            if let Some(commit) = rest.commit_index() {
                self.disk.wl().mut_hard_state().set_commit(commit);
            }
            self.send(rest.take_messages());
            self.node.advance_apply();
        }
    }

    fn send(&mut self, messages: Vec<Message>) {
        self.sent.extend(messages.into_iter().map(|message| (message.to, message)));
    }
}

impl Node for Theirs {
    type Message = Message;
    type Disk = MemStorage;

    fn blank(_: u64, nodes: u64) -> MemStorage {
        MemStorage::new_with_conf_state(((1..=nodes).collect::<Vec<_>>(), vec![]))
    }

    fn start(id: u64, _: u64, disk: MemStorage, _: u64) -> Self {
        let config = Config {
            id,
            election_tick: TIMEOUT as usize,
            heartbeat_tick: 1,
            check_quorum: true,
            pre_vote: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, disk.clone(), &logger).expect("a valid configuration");
        Theirs { node, disk, sent: Vec::new() }
    }

    fn tick(&mut self) {
        self.node.tick();
        self.carry_out();
    }

    fn receive(&mut self, _: u64, message: Message) {
        // It refuses what it does not expect, such as an answer of a node that it does not know.
        let _ = self.node.step(message);
        self.carry_out();
    }

    fn sent(&mut self) -> Vec<(u64, Message)> {
        std::mem::take(&mut self.sent)
    }

    fn leads(&self) -> Option<u64> {
        (self.node.raft.state == StateRole::Leader).then_some(self.node.raft.term)
    }

    fn disk(&self) -> MemStorage {
        self.disk.clone()
    }
}
