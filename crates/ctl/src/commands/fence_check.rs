//! `ctl fence-check`: an example of a resource that deposed leaders cannot touch.

use std::path::PathBuf;

use client::{Fence, FenceError};
use serde::Serialize;

use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Accept a fencing token, unless a larger one was seen before
///
/// Keeps the largest token in FILE: an accepted token is on the disk. A leader that was replaced without noticing has a
/// smaller token than its successor, so it is refused as soon as the successor has presented its token.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl fence-check /srv/data/fence 1879048192
  ctl lead --id 3 -- sh -c 'ctl fence-check /srv/data/fence && ./write'    # the token of the reign

Exit codes: 0 accepted, 1 refused: a larger one was seen, or FILE is damaged.")]
pub(crate) struct Args {
    /// The resource's memory; created if it does not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The token of the process that wants to use the resource
    #[arg(value_name = "TOKEN", env = "CONCLAVE_TOKEN")]
    token: u64,
}

#[derive(Serialize)]
struct Line {
    schema: &'static str,
    /// In decimal, like `largest`: tokens exceed 2^53, where many JSON readers round.
    token: String,
    accepted: bool,
    /// After the check.
    largest: String,
}

pub(crate) fn run(args: &Args, output: Output) -> Result<(), Failure> {
    let line = |accepted, largest: u64| Line {
        schema: "conclave.fence/1",
        token: args.token.to_string(),
        accepted,
        largest: largest.to_string(),
    };
    match Fence::open(&args.file).and_then(|mut fence| fence.check(args.token)) {
        Ok(()) if output.is_json() => Ok(Output::json(&line(true, args.token))?),
        Ok(()) => Ok(Output::line(format!("accepted {}", args.token))?),
        Err(error) => {
            if let (FenceError::Stale { largest, .. }, true) = (&error, output.is_json()) {
                Output::json(&line(false, *largest))?;
            }
            let next = match &error {
                FenceError::Stale { .. } => "do nothing: the process with the larger token leads now".to_owned(),
                FenceError::Damaged { path } => {
                    let path = path.display();
                    format!("mv {path} {path}.damaged, once no process of a deposed leader runs any more")
                }
                FenceError::Io { .. } => "name a file in a directory that can be written".to_owned(),
            };
            Err(Failure::new(Exit::Failed, "refused").because(error.to_string()).hint(next))
        }
    }
}
