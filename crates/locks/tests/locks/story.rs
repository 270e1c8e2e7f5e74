//! Messages in short, for transcripts that people read.

use locks::central::{CentralMsg, CentralTimer, Chunk, Entry, Label, Note};
use locks::wire::{ToClerk, ToClient};
use types::Token;

fn label(label: Label) -> String {
    format!("{}.{}", label.epoch, label.seq)
}

fn token(token: Token) -> String {
    format!("{}+{}", token.epoch(), token.0 & ((1 << 28) - 1))
}

fn entry(entry: &Entry) -> String {
    let holder = &entry.holder;
    let (session, request) = (holder.session.0, holder.request.0);
    format!("{} {} {:?} of {session}/{request}", entry.name, token(entry.token), holder.mode)
}

fn chunk(chunk: &Chunk) -> String {
    let entries: Vec<String> = chunk.entries.iter().map(entry).collect();
    format!("[{}]{}", entries.join(", "), if chunk.last { "" } else { " and more" })
}

fn note(note: &Note) -> String {
    match note {
        Note::Add(added) => format!("+ {}", entry(added)),
        Note::Remove { name, token: of } => format!("- {name} {}", token(*of)),
    }
}

pub(crate) fn peer(message: &CentralMsg) -> String {
    match message {
        CentralMsg::Report { epoch, copy, .. } => {
            format!("Report for {epoch}: {}", copy.map_or("nothing".to_owned(), label))
        }
        CentralMsg::Fetch { term, label: wanted, .. } => format!("Fetch for {}: {}", term.epoch, label(*wanted)),
        CentralMsg::Fetched { label: of, chunk: part, .. } => format!("Fetched {} {}", label(*of), chunk(part)),
        CentralMsg::Install { term, seq, chunk: part } => format!("Install {}.{seq} {}", term.epoch, chunk(part)),
        CentralMsg::Pull { epoch, after } => format!("Pull for {epoch} behind {} {}", after.name, token(after.token)),
        CentralMsg::Adopt { term, label: of } => format!("Adopt {} as {}.0", label(*of), term.epoch),
        CentralMsg::Notes { term, first, notes } => {
            let notes: Vec<String> = notes.iter().map(note).collect();
            format!("Notes {}.{first} [{}]", term.epoch, notes.join(", "))
        }
        CentralMsg::Ack { epoch, seq } => format!("Ack {epoch}.{seq}"),
    }
}

pub(crate) fn to_clerk(message: &ToClerk) -> String {
    match message {
        ToClerk::Open { number, epoch, attach, holds, wants, .. } => {
            let holds: Vec<String> =
                holds.iter().map(|held| format!("{}/{} {}", held.name, held.request.0, token(held.token))).collect();
            let wants: Vec<String> =
                wants.iter().map(|wanted| format!("{}/{}", wanted.name, wanted.request.0)).collect();
            let (number, attach) = (number.0, attach.0);
            format!(
                "Open #{number} at {epoch}, attach {attach}, holds [{}], wants [{}]",
                holds.join(", "),
                wants.join(", ")
            )
        }
        ToClerk::KeepAlive { number } => format!("KeepAlive #{}", number.0),
        ToClerk::Acquire { number, request, name, mode, .. } => {
            format!("Acquire #{} {name}/{} {mode:?}", number.0, request.0)
        }
        ToClerk::Withdraw { request } => format!("Withdraw /{}", request.0),
        ToClerk::Release { request, token: of, durable } => {
            format!("Release /{} {}{}", request.0, token(*of), if *durable { " durably" } else { "" })
        }
        ToClerk::Close => "Close".to_owned(),
    }
}

pub(crate) fn to_client(message: &ToClient) -> String {
    match message {
        ToClient::Clerk { epoch } => format!("Clerk of {epoch}"),
        ToClient::Unavailable { why, .. } => format!("Unavailable: {why:?}"),
        ToClient::Opened { number, lost, .. } => {
            let lost: Vec<String> = lost.iter().map(|request| format!("/{}", request.0)).collect();
            format!("Opened #{}, lost [{}]", number.0, lost.join(", "))
        }
        ToClient::Kept { number } => format!("Kept #{}", number.0),
        ToClient::Queued { number, request, ahead, .. } => {
            format!("Queued #{} /{}, {ahead} ahead", number.0, request.0)
        }
        ToClient::Granted { number, request, token: of } => {
            let number = number.map_or(String::new(), |number| format!(" #{}", number.0));
            format!("Granted{number} /{} {}", request.0, token(*of))
        }
        ToClient::Released { request } => format!("Released /{}", request.0),
        ToClient::Refused { request, why } => format!("Refused /{}: {why:?}", request.0),
        ToClient::Lost { request } => format!("Lost /{}", request.0),
        ToClient::SessionLost => "SessionLost".to_owned(),
        ToClient::NotOpened { why } => format!("NotOpened: {why:?}"),
    }
}

pub(crate) fn timer(timer: CentralTimer) -> String {
    match timer {
        CentralTimer::Office => "sessions of earlier clerks have expired".to_owned(),
        CentralTimer::Requeue => "waiters have queued again".to_owned(),
        CentralTimer::Flush => "notes have waited".to_owned(),
        CentralTimer::Session(session) => format!("session {} expires", session.0),
        CentralTimer::Wait(session, request) => format!("{}/{} has waited", session.0, request.0),
    }
}
