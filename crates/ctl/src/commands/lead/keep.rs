//! `ctl lead --keep`: starts over until a signal ends it.

use std::time::Duration;

use client::format_duration;
use types::since_boot;

use super::{Args, once};
use crate::args::Globals;
use crate::failure::{Exit, Failure, remark};
use crate::guard::Signals;

const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// A run that lasted this long was no failed start: the next wait is short again.
const GOOD_RUN: Duration = Duration::from_mins(1);

pub(super) async fn run(args: &Args, globals: &Globals, signals: &mut Signals) -> Result<(), Failure> {
    let mut reached = None;
    let mut said = String::new();
    let mut wait = WAIT_MIN;
    loop {
        let began = since_boot();
        let ended = once(args, globals, signals, &mut reached).await;
        if signals.asked_to_end() {
            return ended;
        }
        if since_boot().saturating_sub(began) >= GOOD_RUN {
            wait = WAIT_MIN;
            said.clear();
        }
        let (why, next) = match ended {
            // Later it may be a config that is being written.
            Err(failure) if failure.exit == Exit::Usage && !failure.is_passed() && reached.is_none() => {
                return Err(failure);
            }
            Err(failure) if failure.exit == Exit::Lost => {
                remark(format!("{}; waiting for leadership", failure.in_a_line()));
                said.clear();
                wait = WAIT_MIN;
                continue;
            }
            Err(failure) if failure.is_passed() => (format!("the command ended with {}", failure.code()), wait),
            Err(failure) => (failure.in_a_line(), wait),
            Ok(()) => ("the command ended with 0".to_owned(), wait),
        };
        // Once per change: a member may be away for days.
        if why != said {
            remark(format!("{why}; again in {}, and then less often", format_duration(next)));
            said = why;
        }
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            number = signals.deadly() => return Err(Failure::passed((128 + number) as u8)),
        }
        wait = (wait * 2).min(WAIT_MAX);
    }
}
