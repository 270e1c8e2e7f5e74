//! Draws the screen. Colour never carries meaning alone.

use client::json::{Election, Lock, Locks, Range, Status, StatusMember};
use client::{Role, Safety, Topology};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table};

use super::super::{locks, status, theory};
use super::screen::{Mode, Screen};

const SMALLEST: (u16, u16) = (50, 14);

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let words = format!("ctl top needs {} columns and {} lines", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(words), area);
        return;
    }
    let members = screen.status.as_ref().map_or(1, |status| status.members.len()) as u16;
    let lock_rows = screen.locks.as_ref().map_or(1, |locks| lock_rows(locks).len().max(1)) as u16;
    // Half of the screen is for the members, a sixth for the locks; the rest is for events.
    let [title, verdict, members, election, locks, events, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2 + members.min(area.height / 2 - 3)),
        Constraint::Length(4),
        Constraint::Length(2 + lock_rows.min((area.height / 6).max(1))),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(frame, title, screen);
    draw_verdict(frame, verdict, screen);
    draw_members(frame, members, screen);
    draw_election(frame, election, screen);
    draw_locks(frame, locks, screen);
    draw_events(frame, events, screen);
    draw_footer(frame, footer, screen);
}

fn paint(screen: &Screen, color: Color) -> Style {
    if screen.color { Style::new().fg(color) } else { Style::new() }
}

fn panel(title: &str) -> Block<'static> {
    let title = Span::styled(format!(" {title} "), Modifier::BOLD);
    Block::new().borders(Borders::TOP).title(Line::from(title))
}

fn draw_title(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let mut spans = vec![Span::styled("conclave", Modifier::BOLD)];
    if let Some(status) = &screen.status {
        let (topology, safety) = (status.topology.map(Topology::name), status.safety.map(Safety::name));
        let kind = [Some(status.cluster.as_str()), status.algorithm.as_deref(), topology, safety];
        let kind: Vec<&str> = kind.into_iter().flatten().collect();
        spans.push(Span::raw(format!("  {}", kind.join(" · "))));
    }
    frame.render_widget(Line::from(spans), area);
}

fn draw_verdict(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let Some(status) = &screen.status else { return frame.render_widget("Asking the members ...", area) };
    let color = match (status.verdict, status.leader) {
        (_, Some(_)) => Color::Green,
        ("ELECTING", _) => Color::Yellow,
        _ => Color::Red,
    };
    let (words, reachable) = status::verdict_in_words(status);
    // 80 columns have room for the longest of both.
    let reachable = reachable.replace(" members", "");
    let verdict = Span::styled(format!(" {} ", status.verdict), paint(screen, color).add_modifier(Modifier::REVERSED));
    frame.render_widget(Line::from(vec![verdict, Span::raw(format!(" {words}; {reachable}"))]), area);
}

fn draw_members(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let Some(status) = &screen.status else { return frame.render_widget(panel("Members"), area) };
    let room = usize::from(area.height.saturating_sub(2));
    let hidden = status.members.len().saturating_sub(room);
    let title = match hidden {
        0 => format!("Members ({})", status.members.len()),
        hidden => format!("Members ({}, {hidden} more do not fit)", status.members.len()),
    };
    let header = ["ID", "ROLE", "LEADER", "EPOCH", "LEASE", "HEARD", "SENT", "RECEIVED", "ADDRESS"];
    let rows = status.members.iter().take(room).map(|member| member_row(member, screen));
    let widths = [3, 9, 6, 10, 6, 6, 7, 8].map(Constraint::Length).into_iter().chain([Constraint::Min(8)]);
    let table = Table::new(rows, widths).header(header_row(&header)).block(panel(&title));
    frame.render_widget(table, area);
}

fn header_row(titles: &[&'static str]) -> Row<'static> {
    Row::new(titles.iter().map(|title| Cell::from(*title))).style(Style::new().add_modifier(Modifier::DIM))
}

fn member_row(member: &StatusMember, screen: &Screen) -> Row<'static> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let time = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), status::rounded);
    let role = match member.role {
        Some(Role::Leader) => Span::styled("leader", paint(screen, Color::Green).add_modifier(Modifier::BOLD)),
        Some(Role::Candidate) => Span::styled("candidate", paint(screen, Color::Yellow)),
        Some(role) => Span::raw(role.name()),
        None => Span::styled("down", paint(screen, Color::Red)),
    };
    let faults = member.faults.as_ref().filter(|faults| !faults.is_empty());
    let address = match (&member.trouble, faults) {
        (Some(trouble), _) => format!("{} ({trouble})", member.address),
        (None, Some(faults)) => format!("{} FAULTS: {}", member.address, faults.join(", ")),
        (None, None) => member.address.clone(),
    };
    Row::new([
        Cell::from(number(member.id.map(u64::from))),
        Cell::from(role),
        Cell::from(number(member.leader.map(u64::from))),
        Cell::from(number(member.epoch)),
        Cell::from(time(member.lease_ms)),
        Cell::from(time(member.last_heard_ms)),
        Cell::from(number(member.sent)),
        Cell::from(number(member.received)),
        Cell::from(address),
    ])
}

fn draw_election(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let election = screen.status.as_ref().and_then(|status| status.election.as_ref());
    let lines = match (&screen.status, election) {
        (Some(status), Some(election)) => election_lines(status, election),
        _ => vec!["No member tells of an election.".to_owned()],
    };
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Paragraph::new(lines).block(panel("Last election")), area);
}

/// Who took part; the sums; every kind beside what theory says of it.
fn election_lines(status: &Status, election: &Election) -> Vec<String> {
    let list = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let started = election.initiators.as_deref().filter(|ids| !ids.is_empty());
    let started = started.map_or_else(String::new, |ids| format!(", started by {}", list(ids)));
    let theory = election.theory.as_ref();
    let beside = |count: u64, expected: Option<Range>| match expected {
        Some(range) => format!("{count} (theory {})", theory::range(range)),
        None => count.to_string(),
    };
    let messages = &election.messages;
    let kind = |(kind, &count): (&String, &u64)| {
        let expected = theory.and_then(|theory| theory.by_kind.get(kind).copied());
        format!("{kind} {}", beside(count, expected))
    };
    let sums = format!(
        "{} messages, and {} to announce it{}",
        beside(messages.election, theory.map(|theory| theory.election)),
        beside(messages.announcement, theory.map(|theory| theory.announcement)),
        if theory.is_none() { format!("; {}", status::why_no_theory(status, election)) } else { String::new() }
    );
    let kinds: Vec<String> = messages.by_kind.iter().map(kind).collect();
    vec![format!("of {}{started}", list(&election.participants)), sums, kinds.join(" · ")]
}

fn lock_rows(locks: &Locks) -> Vec<[String; 7]> {
    locks.locks.iter().flat_map(locks::cells).collect()
}

fn draw_locks(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let held = |locks: &Locks| {
        let waiting: usize = locks.locks.iter().map(|lock: &Lock| lock.waiters.len()).sum();
        format!("Locks ({}, {waiting} waiting)", locks.locks.len())
    };
    match &screen.locks {
        Err(why) => frame.render_widget(Paragraph::new(why.as_str()).block(panel("Locks")), area),
        Ok(locks) if locks.locks.is_empty() => {
            frame.render_widget(Paragraph::new("No lock is held.").block(panel("Locks")), area);
        }
        Ok(locks) => {
            let rows = lock_rows(locks).into_iter().map(Row::new);
            let header = ["LOCK", "MODE", "HOLDER", "TOKEN", "HELD", "LEFT", "WAITERS"];
            let widths = [12, 9, 8, 20, 6, 6].map(Constraint::Length).into_iter().chain([Constraint::Min(8)]);
            let table = Table::new(rows, widths).header(header_row(&header)).block(panel(&held(locks)));
            frame.render_widget(table, area);
        }
    }
}

fn draw_events(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let room = usize::from(area.height.saturating_sub(1));
    let end = screen.events.len() - screen.scrolled;
    let lines: Vec<Line<'_>> = screen
        .events
        .range(end.saturating_sub(room)..end)
        .map(|event| Line::from(Span::styled(event.as_str(), event_style(event, screen))))
        .collect();
    let title = match screen.scrolled {
        0 => "Events".to_owned(),
        newer => format!("Events ({newer} newer: End)"),
    };
    frame.render_widget(Paragraph::new(lines).block(panel(&title)), area);
}

fn event_style(event: &str, screen: &Screen) -> Style {
    let roles = [(" leader ", Color::Green), (" candidate ", Color::Yellow), (" down ", Color::Red)];
    roles.iter().find(|(role, _)| event.contains(role)).map_or_else(Style::new, |&(_, color)| paint(screen, color))
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let keys = if screen.write {
        "q ends · up/down scroll · e elect · s step down · t transfer"
    } else {
        "q ends · up/down scroll · read-only (--write: elect, step down, transfer)"
    };
    let words = match (&screen.mode, &screen.notice) {
        (Mode::Choosing(digits), _) => format!("transfer to which member? {digits}_ (Enter, Esc)"),
        (Mode::Confirming(order), _) => format!("{}: really? y/n", order.command()),
        (Mode::Watching, Some(notice)) => notice.clone(),
        (Mode::Watching, None) => keys.to_owned(),
    };
    frame.render_widget(Line::from(Span::styled(words, Modifier::REVERSED)), area);
}
