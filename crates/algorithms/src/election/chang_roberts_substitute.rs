//! Chang and Roberts 1979, with the start-up rule of the paper: a node that is woken *substitutes* its id for a worse one.
//!
//! Model: asynchronous unidirectional ring, unique ids, n unknown, no failure inside an election.
//!
//! A node that wakes by another node's PROBE replaces a worse id by its own, and stays silent under a better one. The
//! rest is the row `chang-roberts`, whose nodes always send their own id first; both rows are one machine.
//!
//! Messages without the announcement: n at least, when the best node alone starts. One initiator: exactly d + n, where d
//! is the distance from it to the best node, so 2n - 1 at most and (n-1)/2 + n on average over the initiators. All at
//! once: the sum over all nodes of the distance to the next better id, as in `chang-roberts`: 2n - 1 .. n(n+1)/2, n·H_n
//! on average. Other sets lie between n and that sum, and depend on the schedule. SELECTED adds n: one initiator then
//! costs 2n .. 3n - 1.

use super::chang_roberts::ChangRoberts;

pub type Substitute = ChangRoberts<true>;
