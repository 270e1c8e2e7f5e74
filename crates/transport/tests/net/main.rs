//! Framed TCP over real sockets.

mod chaos;
mod common;
mod flow;
mod hostile;
mod pairing;
mod refusals;
mod roster;
mod versions;
