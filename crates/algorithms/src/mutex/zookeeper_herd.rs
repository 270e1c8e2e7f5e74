//! The lock recipe of ZooKeeper as Hunt, Konar, Junqueira & Reed 2010 warn of it: with a herd.
//!
//! Model: as without the herd: a full mesh, reliable FIFO links, no failure. The service is the first member of the
//! view.
//!
//! Every member that waits watches the smallest entry, which is the holder's, instead of its predecessor. An exit then
//! wakes all of them; each lists all entries again, one of them enters, and the others watch the next holder.
//!
//! Messages: 5 per entry where no other member wants to enter. With n members that want to enter, an exit causes n-1
//! notifications instead of 1, and n-1 lists and n-2 watches; a member that has k members before it sends and receives
//! 7 + 5k messages, instead of at most 10.
//!
//! Pitfall. All of these messages arrive at the service at the same moment, when the lock is handed over.

use super::zookeeper::Recipe;

pub type Herd = Recipe<true>;
