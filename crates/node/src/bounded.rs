//! A queue between threads that holds at most so many elements, and takes memory for those that are in it. The bounded queue of the
//! standard library has all its places from the beginning: a hundred kibibytes for two queues that are nearly always empty.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TrySendError};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Sender<T> {
    queue: mpsc::Sender<T>,
    waiting: Arc<AtomicUsize>,
    most: usize,
}

#[derive(Debug)]
pub(crate) struct Receiver<T> {
    queue: mpsc::Receiver<T>,
    waiting: Arc<AtomicUsize>,
}

/// At most `most` elements wait.
pub(crate) fn channel<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    (Sender { queue: sender, waiting: Arc::clone(&waiting), most }, Receiver { queue: receiver, waiting })
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Sender { queue: self.queue.clone(), waiting: Arc::clone(&self.waiting), most: self.most }
    }
}

impl<T> Sender<T> {
    /// Never waits.
    pub(crate) fn try_send(&self, element: T) -> Result<(), TrySendError<T>> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(TrySendError::Full(element));
        }
        self.queue.send(element).map_err(|mpsc::SendError(element)| TrySendError::Disconnected(element))
    }
}

impl<T> Receiver<T> {
    fn taken(&self, element: T) -> T {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        element
    }

    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.queue.recv_timeout(timeout).map(|element| self.taken(element))
    }

    /// The elements that are there, without waiting for more.
    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        self.queue.try_iter().map(|element| self.taken(element))
    }

    /// Waits for each element, until no sender is left.
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        self.queue.iter().map(|element| self.taken(element))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_so_many_elements_and_has_room_again_for_each_that_is_taken() {
        let (sender, receiver) = channel(3);
        for round in 0..4 {
            assert!((0..3).all(|n| sender.try_send(n).is_ok()), "round {round}");
            assert_eq!(sender.clone().try_send(9), Err(TrySendError::Full(9)));
            assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(0));
            assert_eq!(sender.try_send(3), Ok(()));
            assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
            assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
        }
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        sender.try_send(4).unwrap();
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn a_sender_without_a_receiver_is_told() {
        let (sender, receiver) = channel(1);
        drop(receiver);
        assert_eq!(sender.try_send(1), Err(TrySendError::Disconnected(1)));
    }
}
