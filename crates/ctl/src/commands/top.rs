//! `ctl top`: the cluster in a terminal, live.

mod feed;
mod keys;
mod orders;
mod screen;
mod terminal;
mod view;

use std::io::IsTerminal;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::feed::{Feed, Update};
use self::screen::{Reaction, Screen};
use self::terminal::Terminal;
use crate::args::Globals;
use crate::connection_options::{Target, failures, no_member_answered};
use crate::failure::Failure;
use crate::output::Output;

/// Show members, locks, the last election and events in the terminal, live
///
/// Members that cannot be reached are dialled again. Nothing is changed without --write; with it, keys ask for an election, a
/// handover or a resignation, each after a confirmation.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl top
  ctl top --write

Keys: q, Esc or Ctrl-C ends; Up, Down, PageUp, PageDown and End scroll the events; with --write also e (elect), s (step down)
and t (transfer).
Exit codes: 0 ended by a key, 2 no terminal, 8 refused.")]
pub(crate) struct Args {
    /// Allow the keys that change who leads
    #[arg(long)]
    write: bool,

    /// For scripts that expect it of a `top`: refused, because `ctl status` prints the state once
    #[arg(long, hide = true)]
    once: bool,
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    if args.once || output.is_json() || !output.is_terminal() || !std::io::stdin().is_terminal() {
        return Err(Failure::usage("`ctl top` draws on a terminal, until a key ends it")
            .because("there is no terminal here, or the output shall be printed once")
            .hint("`ctl status` prints the state once, `ctl status --watch` at every change, both also with -o json"));
    }
    let mut target = Target::resolve(globals)?;
    let answers = target.ask_listed().await;
    let failures = failures(&answers);
    // Members that are down may come back; a refusal stays one.
    if failures.len() == answers.len() && failures.iter().any(|(_, error)| error.is_refusal()) {
        return Err(no_member_answered(&failures));
    }
    let feed = Feed::start(target, globals)?;
    show(feed, Screen::new(args.write, output.has_color()), globals).await
}

/// The terminal must be as before after a panic too, which tests cannot cause otherwise.
fn panic_if_asked() {
    let asked =
        cfg!(debug_assertions) && std::env::var_os("CONCLAVE_TEST_PANIC").is_some_and(|where_to| where_to == "top");
    assert!(!asked, "a panic on purpose, as CONCLAVE_TEST_PANIC asks");
}

/// Draws after every key, event and answer, until a key or a signal ends it.
async fn show(mut feed: Feed, mut screen: Screen, globals: &Globals) -> Result<(), Failure> {
    let (mut terminate, mut hang_up) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let (done, mut finished) = mpsc::unbounded_channel();
    let mut terminal = Terminal::enter()?;
    let mut keys = keys::read();
    loop {
        terminal.draw(|frame| view::draw(frame, &screen))?;
        panic_if_asked();
        tokio::select! {
            key = keys.recv() => match key {
                Some(key) => match screen.key(&key) {
                    Reaction::Nothing => {}
                    Reaction::End => return Ok(()),
                    Reaction::Order(order) => orders::carry_out(order, globals.clone(), done.clone()),
                },
                // The terminal is gone.
                None => return Ok(()),
            },
            update = feed.next() => screen.update(update),
            Some(notice) = finished.recv() => screen.update(Update::Notice(notice)),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => return Ok(()),
        }
    }
}
