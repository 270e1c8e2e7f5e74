//! One file for each part of the service, and of the client's side.

mod attach;
mod heirs;
mod keeper;
mod limits;
mod notary;
mod queues;
mod requests;
mod reserved;
mod right;
mod session;
mod sessions;
mod shadow;
mod table;
mod taking;
