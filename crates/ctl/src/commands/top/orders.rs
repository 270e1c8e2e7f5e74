//! What an operator may ask for with `ctl top --write`: the same as the commands of these names.

use tokio::sync::mpsc;

use super::super::leadership_change::in_words;
use super::super::{elect, step_down, transfer};
use crate::args::Globals;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    Elect,
    StepDown,
    Transfer(u32),
}

impl Order {
    /// The command line that does the same.
    pub(super) fn command(self) -> String {
        match self {
            Order::Elect => "ctl elect".to_owned(),
            Order::StepDown => "ctl step-down".to_owned(),
            Order::Transfer(to) => format!("ctl transfer {to}"),
        }
    }
}

/// In the background: the screen goes on. Tells how it ended.
pub(super) fn carry_out(order: Order, globals: Globals, done: mpsc::UnboundedSender<String>) {
    tokio::spawn(async move {
        let change = match order {
            Order::Elect => elect::change(None, &globals).await,
            Order::StepDown => step_down::change(None, &globals).await,
            Order::Transfer(to) => transfer::change(to, false, &globals).await,
        };
        let how = change.map_or_else(|failure| failure.in_a_line(), |change| in_words(&change));
        let _ = done.send(format!("{}: {how}", order.command()));
    });
}
