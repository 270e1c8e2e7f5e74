//! What happened before what: vector clocks that only the harness knows, no machine.
//!
//! A clock counts requests: `known[a][b]` is how many requests of `b` happened before the present moment of `a`. This is
//! enough to order requests, and it changes only when a member asks or when a message arrives. Messages of one step
//! share one copy of their sender's clock; copies are used again, so a run in steady state allocates nothing.

/// The clocks of all members and of all messages under way.
#[derive(Debug)]
pub(crate) struct Knowledge {
    members: usize,
    known: Vec<u32>,
    /// The clock of each member at its latest request.
    asked: Vec<u32>,
    copies: Vec<u32>,
    /// How many messages under way use a copy.
    users: Vec<u32>,
    free: Vec<u32>,
    /// The copy that was made in this step.
    current: Option<u32>,
}

impl Knowledge {
    pub(crate) fn new(members: usize) -> Self {
        Knowledge {
            members,
            known: vec![0; members * members],
            asked: vec![0; members * members],
            copies: Vec::new(),
            users: Vec::new(),
            free: Vec::new(),
            current: None,
        }
    }

    /// Another step begins: its messages need a copy of their own.
    #[inline]
    pub(crate) fn begin_step(&mut self) {
        self.current = None;
    }

    /// The member asks for its section.
    pub(crate) fn ask(&mut self, at: usize) {
        let row = at * self.members..(at + 1) * self.members;
        self.known[row.start + at] += 1;
        self.asked[row.clone()].copy_from_slice(&self.known[row]);
    }

    /// A message leaves; returns the copy that travels with it.
    #[inline]
    pub(crate) fn attach(&mut self, from: usize) -> u32 {
        let copy = self.current.unwrap_or_else(|| self.copy(from));
        self.current = Some(copy);
        self.users[copy as usize] += 1;
        copy
    }

    /// The same message is under way once more.
    pub(crate) fn share(&mut self, copy: u32) {
        self.users[copy as usize] += 1;
    }

    fn copy(&mut self, from: usize) -> u32 {
        let copy = self.free.pop().unwrap_or_else(|| {
            self.copies.resize(self.copies.len() + self.members, 0);
            self.users.push(0);
            self.users.len() as u32 - 1
        });
        let start = copy as usize * self.members;
        let row = from * self.members..(from + 1) * self.members;
        self.copies[start..start + self.members].copy_from_slice(&self.known[row]);
        copy
    }

    /// A message arrives.
    #[inline]
    pub(crate) fn arrive(&mut self, to: usize, copy: u32) {
        let start = copy as usize * self.members;
        let mine = &mut self.known[to * self.members..(to + 1) * self.members];
        for (mine, theirs) in mine.iter_mut().zip(&self.copies[start..start + self.members]) {
            *mine = (*mine).max(*theirs);
        }
        self.drop_copy(copy);
    }

    /// A message ends without arriving, or has arrived.
    pub(crate) fn drop_copy(&mut self, copy: u32) {
        self.users[copy as usize] -= 1;
        if self.users[copy as usize] == 0 {
            self.free.push(copy);
        }
    }

    /// Did the latest request of `a` happen before the latest request of `b`?
    #[inline]
    pub(crate) fn before(&self, a: usize, b: usize) -> bool {
        a != b && self.asked[b * self.members + a] >= self.asked[a * self.members + a]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_orders_the_request_of_its_sender_before_later_requests_of_its_receiver() {
        let mut known = Knowledge::new(3);
        known.ask(0);
        let copy = known.attach(0);
        known.ask(1);
        assert!(!known.before(0, 1) && !known.before(1, 0), "nothing has arrived");
        known.arrive(1, copy);
        known.ask(1);
        assert!(known.before(0, 1) && !known.before(1, 0));
        known.begin_step();
        let copy = known.attach(1);
        known.arrive(2, copy);
        known.ask(2);
        assert!(known.before(0, 2) && known.before(1, 2), "by way of another member");
    }

    #[test]
    fn copies_are_used_again_when_no_message_has_them() {
        let mut known = Knowledge::new(2);
        for _ in 0..100 {
            known.begin_step();
            let (first, second) = (known.attach(0), known.attach(0));
            assert_eq!(first, second, "one step, one copy");
            known.arrive(1, first);
            known.drop_copy(second);
        }
        assert_eq!(known.users.len(), 1);
    }
}
