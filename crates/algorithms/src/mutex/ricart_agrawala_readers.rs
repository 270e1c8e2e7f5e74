//! Ricart and Agrawala 1981 with readers and writers: the paper's own modification.
//!
//! Model: as without readers: a full mesh, reliable links in any order, no failure, all members known.
//!
//! A request says whether it is a reader's or a writer's. A member that reads, or waits to read, replies at once to
//! every other reader, whatever the timestamps; all other replies are given and deferred as without readers. So readers
//! are inside together, and a writer is alone.
//!
//! Messages: exactly 2(N-1) per entry, for readers and writers. Writers do not wait for ever: a reader that asks later
//! than a waiting writer gets no reply from that writer before the writer is out.
//!
//! Tokens: two readers that are inside together know nothing of each other, so they cannot have rising tokens. A reader
//! takes the token one above the last writer's and a writer the one two above it: the readers between two writers have
//! one common token, between the tokens of the two writers, and a resource never sees a token go back.
//!
//! Pitfall. Only sections that exclude each other follow the timestamps: a reader may enter before another reader that
//! asked earlier.

use super::ricart_agrawala::Permissions;

pub type RicartAgrawalaReaders = Permissions<true>;
