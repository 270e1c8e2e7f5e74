//! Connections like TCP's: both ends get the news, each direction is FIFO, and an end may be open after the other
//! closed.

use crate::rng::Rng;

use super::plan::US;

/// Names one connection for ever.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ConnId(pub u64);

/// What is sent on a connection.
#[derive(Clone, Debug)]
pub(crate) enum Transit<M> {
    Data(M),
    /// The other end has closed.
    Fin,
}

/// A message on its way, or held back by a cut.
#[derive(Clone, Debug)]
pub(crate) struct Parcel<M> {
    pub conn: ConnId,
    pub from: usize,
    pub to: usize,
    pub what: Transit<M>,
}

#[derive(Debug)]
pub(crate) struct Network<M> {
    nodes: usize,
    pairs: Vec<Pair<M>>,
    next: u64,
    delay_max: u64,
}

/// One direction: from one node to another.
#[derive(Debug)]
struct Pair<M> {
    /// The sender's end, if open.
    open: Option<ConnId>,
    /// The number of cuts on this direction.
    cuts: u32,
    /// Sent into a cut: TCP retransmits it when the cut ends.
    held: Vec<Parcel<M>>,
    /// No later send arrives before this.
    latest: u64,
    /// When the sender's end was, or will be, reported open.
    up_at: u64,
    /// Intact since then, seen from both sides; kept for the smaller of the two nodes first.
    intact_since: Option<u64>,
}

impl<M> Network<M> {
    pub(crate) fn new(nodes: usize, delay_max: u64) -> Self {
        let pair = || Pair { open: None, cuts: 0, held: Vec::new(), latest: 0, up_at: 0, intact_since: None };
        Network { nodes, pairs: (0..nodes * nodes).map(|_| pair()).collect(), next: 0, delay_max }
    }

    fn pair(&self, from: usize, to: usize) -> &Pair<M> {
        &self.pairs[from * self.nodes + to]
    }

    fn pair_mut(&mut self, from: usize, to: usize) -> &mut Pair<M> {
        &mut self.pairs[from * self.nodes + to]
    }

    pub(crate) fn end(&self, node: usize, peer: usize) -> Option<ConnId> {
        self.pair(node, peer).open
    }

    pub(crate) fn is_cut(&self, from: usize, to: usize) -> bool {
        self.pair(from, to).cuts > 0
    }

    /// Mostly fast, sometimes with the longest delay.
    fn delay(&self, rng: &mut Rng) -> u64 {
        let max = if rng.chance(90) { (self.delay_max / 4).max(51 * US) } else { self.delay_max };
        rng.between(50 * US, max)
    }

    /// When a message sent now arrives: never before a message sent earlier.
    pub(crate) fn arrival(&mut self, now: u64, from: usize, to: usize, rng: &mut Rng) -> u64 {
        let drawn = now + self.delay(rng);
        let pair = self.pair_mut(from, to);
        pair.latest = pair.latest.max(drawn);
        pair.latest
    }

    /// When the news of a close arrives. A reset overtakes messages that are still on their way, but not the opening
    /// itself.
    pub(crate) fn fin_arrival(&mut self, now: u64, from: usize, to: usize, rng: &mut Rng) -> u64 {
        if rng.chance(50) {
            return self.arrival(now, from, to, rng);
        }
        (now + rng.between(50 * US, 200 * US)).max(self.pair(to, from).up_at + 1)
    }

    /// A new connection between the two; returns when each side gets the news.
    pub(crate) fn connect(&mut self, now: u64, a: usize, b: usize, rng: &mut Rng) -> (ConnId, u64, u64) {
        self.next += 1;
        let (at_a, at_b) = (now + self.delay(rng), now + self.delay(rng));
        for (x, y, up_x, up_y) in [(a, b, at_a, at_b), (b, a, at_b, at_a)] {
            let pair = self.pair_mut(x, y);
            pair.up_at = up_x;
            // The first frame cannot arrive before the far side knows the connection.
            pair.latest = pair.latest.max(up_y);
        }
        (ConnId(self.next), at_a, at_b)
    }

    /// Is a connection of the two about to be reported?
    pub(crate) fn connecting(&self, now: u64, a: usize, b: usize) -> bool {
        self.pair(a, b).up_at >= now || self.pair(b, a).up_at >= now
    }

    /// Opens a node's end; returns the one it replaces.
    pub(crate) fn open(&mut self, node: usize, peer: usize, conn: ConnId) -> Option<ConnId> {
        self.pair_mut(node, peer).open.replace(conn)
    }

    pub(crate) fn close(&mut self, node: usize, peer: usize) -> Option<ConnId> {
        self.pair_mut(node, peer).open.take()
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.pair_mut(from, to).cuts += 1;
    }

    /// Removes one cut; returns what was held back if it was the last.
    pub(crate) fn mend(&mut self, from: usize, to: usize) -> Vec<Parcel<M>> {
        let pair = self.pair_mut(from, to);
        pair.cuts = pair.cuts.saturating_sub(1);
        if pair.cuts == 0 { std::mem::take(&mut pair.held) } else { Vec::new() }
    }

    pub(crate) fn mend_all(&mut self, from: usize, to: usize) -> Vec<Parcel<M>> {
        self.pair_mut(from, to).cuts = 0;
        std::mem::take(&mut self.pair_mut(from, to).held)
    }

    pub(crate) fn hold(&mut self, parcel: Parcel<M>) {
        self.pair_mut(parcel.from, parcel.to).held.push(parcel);
    }

    /// Brings the record of an undisturbed pair up to date; true if it changed.
    pub(crate) fn refresh(&mut self, now: u64, a: usize, b: usize, both_run: bool) -> bool {
        let same = self.end(a, b).is_some() && self.end(a, b) == self.end(b, a);
        let intact = both_run && same && !self.is_cut(a, b) && !self.is_cut(b, a);
        let (first, second) = (a.min(b), a.max(b));
        let since = &mut self.pair_mut(first, second).intact_since;
        if since.is_some() == intact {
            return false;
        }
        *since = intact.then_some(now);
        true
    }

    /// Since when the connection of the two is undisturbed.
    pub(crate) fn intact_since(&self, a: usize, b: usize) -> Option<u64> {
        self.pair(a.min(b), a.max(b)).intact_since
    }

    pub(crate) fn intact(&self, a: usize, b: usize) -> bool {
        self.pair(a.min(b), a.max(b)).intact_since.is_some()
    }
}
