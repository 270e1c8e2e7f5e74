//! What is on the screen, and what a key does to it. Nothing here draws.

use std::collections::VecDeque;

use client::json::{Locks, Status};
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::feed::Update;
use super::orders::Order;

/// More are forgotten, the oldest first.
const EVENTS_MAX: usize = 500;
const PAGE: usize = 5;

#[derive(Debug)]
pub(super) struct Screen {
    pub(super) status: Option<Box<Status>>,
    /// Or why there are none to show.
    pub(super) locks: Result<Locks, String>,
    /// The newest last.
    pub(super) events: VecDeque<String>,
    /// How many of the newest events are below the window.
    pub(super) scrolled: usize,
    pub(super) mode: Mode,
    /// The answer to the last key.
    pub(super) notice: Option<String>,
    pub(super) write: bool,
    pub(super) color: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Watching,
    /// The digits of a successor's id.
    Choosing(String),
    Confirming(Order),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reaction {
    Nothing,
    End,
    Order(Order),
}

impl Screen {
    pub(super) fn new(write: bool, color: bool) -> Self {
        let locks = Err("not asked yet".to_owned());
        let (status, notice, mode) = (None, None, Mode::Watching);
        Screen { status, locks, events: VecDeque::new(), scrolled: 0, mode, notice, write, color }
    }

    pub(super) fn update(&mut self, update: Update) {
        match update {
            Update::Status(status) => self.status = Some(status),
            Update::Locks(locks) => self.locks = locks,
            Update::Notice(notice) => self.notice = Some(notice),
            Update::Event(event) => {
                if self.events.len() == EVENTS_MAX {
                    self.events.pop_front();
                }
                self.events.push_back(event);
                // Who has scrolled back goes on seeing the same events.
                if self.scrolled > 0 {
                    self.scroll(1);
                }
            }
        }
    }

    pub(super) fn key(&mut self, event: &Event) -> Reaction {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = *event else {
            return Reaction::Nothing;
        };
        if code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Reaction::End;
        }
        match self.mode.clone() {
            Mode::Watching => self.watching(code),
            Mode::Choosing(digits) => self.choosing(digits, code),
            Mode::Confirming(order) => self.confirming(order, code),
        }
    }

    fn watching(&mut self, code: KeyCode) -> Reaction {
        self.notice = None;
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Reaction::End,
            KeyCode::Up => self.scroll(1),
            KeyCode::PageUp => self.scroll(PAGE),
            KeyCode::Down => self.scrolled = self.scrolled.saturating_sub(1),
            KeyCode::PageDown => self.scrolled = self.scrolled.saturating_sub(PAGE),
            KeyCode::End => self.scrolled = 0,
            KeyCode::Char('e' | 's' | 't') if !self.write => {
                self.notice = Some("read-only: `ctl top --write` allows to elect, step down and transfer".to_owned());
            }
            KeyCode::Char('e') => self.mode = Mode::Confirming(Order::Elect),
            KeyCode::Char('s') => self.mode = Mode::Confirming(Order::StepDown),
            KeyCode::Char('t') => self.mode = Mode::Choosing(String::new()),
            _ => {}
        }
        Reaction::Nothing
    }

    fn choosing(&mut self, mut digits: String, code: KeyCode) -> Reaction {
        self.mode = match code {
            KeyCode::Char(digit) if digit.is_ascii_digit() && digits.len() < 9 => {
                digits.push(digit);
                Mode::Choosing(digits)
            }
            KeyCode::Backspace => {
                digits.pop();
                Mode::Choosing(digits)
            }
            KeyCode::Enter => match digits.parse() {
                Ok(to) => Mode::Confirming(Order::Transfer(to)),
                Err(_) => Mode::Watching,
            },
            KeyCode::Esc | KeyCode::Char('q' | 'n') => Mode::Watching,
            _ => Mode::Choosing(digits),
        };
        Reaction::Nothing
    }

    fn confirming(&mut self, order: Order, code: KeyCode) -> Reaction {
        match code {
            KeyCode::Char('y') => {
                self.mode = Mode::Watching;
                self.notice = Some(format!("{} ...", order.command()));
                Reaction::Order(order)
            }
            KeyCode::Char('n' | 'q') | KeyCode::Esc => {
                self.mode = Mode::Watching;
                self.notice = Some("nothing was changed".to_owned());
                Reaction::Nothing
            }
            _ => Reaction::Nothing,
        }
    }

    fn scroll(&mut self, by: usize) {
        self.scrolled = (self.scrolled + by).min(self.events.len().saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(screen: &mut Screen, code: KeyCode) -> Reaction {
        screen.key(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)))
    }

    #[test]
    fn without_write_no_key_gives_an_order() {
        let mut screen = Screen::new(false, false);
        for key in ['e', 's', 't', 'y', '3'] {
            assert_eq!(press(&mut screen, KeyCode::Char(key)), Reaction::Nothing);
            assert_eq!(screen.mode, Mode::Watching);
        }
        press(&mut screen, KeyCode::Char('s'));
        assert!(screen.notice.as_deref().unwrap().contains("--write"));
    }

    #[test]
    fn an_order_needs_a_confirmation_and_esc_takes_it_back_without_ending() {
        let mut screen = Screen::new(true, false);
        assert_eq!(press(&mut screen, KeyCode::Char('s')), Reaction::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Char('x')), Reaction::Nothing);
        assert_eq!(press(&mut screen, KeyCode::Esc), Reaction::Nothing);
        assert_eq!(screen.mode, Mode::Watching);
        for key in [KeyCode::Char('t'), KeyCode::Char('1'), KeyCode::Char('2'), KeyCode::Enter] {
            assert_eq!(press(&mut screen, key), Reaction::Nothing);
        }
        assert_eq!(screen.mode, Mode::Confirming(Order::Transfer(12)));
        assert_eq!(press(&mut screen, KeyCode::Char('y')), Reaction::Order(Order::Transfer(12)));
        assert_eq!(press(&mut screen, KeyCode::Esc), Reaction::End);
    }

    #[test]
    fn a_reader_who_has_scrolled_back_goes_on_seeing_the_same_events() {
        let mut screen = Screen::new(false, false);
        for nth in 0..10 {
            screen.update(Update::Event(nth.to_string()));
        }
        press(&mut screen, KeyCode::PageUp);
        assert_eq!(screen.scrolled, PAGE);
        screen.update(Update::Event("more".to_owned()));
        assert_eq!(screen.scrolled, PAGE + 1);
        press(&mut screen, KeyCode::End);
        assert_eq!(screen.scrolled, 0);
    }
}
