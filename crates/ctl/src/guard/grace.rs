//! How much time a command has between SIGTERM and SIGKILL.

use std::time::Duration;

use client::format_duration;

use crate::failure::Failure;

/// What limits the grace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room<'a> {
    /// The longest time for which one confirmation is valid.
    pub(crate) usable: Duration,
    /// The longest grace that leaves time for two confirmations.
    pub(crate) fits: Duration,
    /// What the grace must fit into, for people.
    pub(crate) what: &'a str,
    /// Why that is so, and what to do for a longer one.
    pub(crate) because: &'a str,
    pub(crate) or: &'a str,
}

/// The grace that was asked for, if it fits; without a wish a fifth of the usable time.
pub(crate) fn choose(wanted: Option<Duration>, room: &Room<'_>) -> Result<Duration, Failure> {
    let Room { usable, fits, what, because, or } = *room;
    match wanted {
        None => Ok((usable / 5).min(fits)),
        Some(grace) if grace <= fits => Ok(grace),
        Some(grace) => {
            let fits = Duration::from_millis(fits.as_millis() as u64);
            Err(Failure::usage(format!("a grace of {} does not fit {what}", format_duration(grace)))
                .because(because)
                .hint(format!("--grace {} or less, or {or}", format_duration(fits))))
        }
    }
}
