//! The HTTP face of a member: JSON for programs, metrics, a stream of events and the dashboard.
//!
//! It runs on one thread of its own and is a client of the cluster like any other: it asks members over their framed ports,
//! so every order passes the same door and the same ledger. Of its own process it reads [`Shown`] without asking the event
//! loop, and asks the loop for [`Figures`] when metrics are scraped.
//!
//! - [`serve`]: connections and their limits. `door`: who may ask for what. `routes`: the table of routes.
//! - `reads`, `events`, `orders`, `lock_sessions`: what the routes do. `metrics`: the text that Prometheus reads.
//! - `answer`: responses and problems. `assets`: the files of the dashboard. `openapi`: the description of all routes.

mod answer;
mod assets;
mod body;
mod door;
mod events;
mod histogram;
mod lock_sessions;
mod metrics;
mod openapi;
mod orders;
mod own;
mod reads;
mod request;
mod routes;
mod serve;
mod stall;

pub use door::Tokens;
pub use histogram::Histogram;
pub use metrics::{Figures, LockFigures, MessageCount, NAMES as METRIC_NAMES, PeerQueue};
pub use own::Shown;
pub use serve::{Settings, serve};
