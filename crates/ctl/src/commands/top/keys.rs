//! Keys and changes of the terminal's size, read by a thread of their own: the terminal cannot be awaited.

use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;

/// Ends when the terminal cannot be read any more.
pub(super) fn read() -> mpsc::UnboundedReceiver<Event> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
