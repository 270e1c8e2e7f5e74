//! The terminal in raw mode, on its second screen. It is as it was before when this is dropped, and after a panic.

use std::io::{self, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

/// Restored once: a second time would move the cursor back over what was printed since.
static CHANGED: AtomicBool = AtomicBool::new(false);

pub(super) struct Terminal(ratatui::Terminal<CrosstermBackend<Stdout>>);

impl Terminal {
    pub(super) fn enter() -> io::Result<Self> {
        restore_after_panic();
        CHANGED.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        let entered = execute!(stdout(), EnterAlternateScreen);
        let terminal = entered.and_then(|()| ratatui::Terminal::new(CrosstermBackend::new(stdout())));
        terminal.map(Terminal).inspect_err(|_| restore())
    }

    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(view).map(|_| ())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Before the message of the panic is printed: on the second screen it would be lost.
fn restore_after_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            print(panic);
        }));
    });
}

/// A terminal that cannot be restored is gone.
fn restore() {
    if !CHANGED.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}
