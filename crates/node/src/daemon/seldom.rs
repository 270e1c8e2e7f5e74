//! Sources of events that are seldom ready. The event loop is woken some fifty times a second by its peers and its timer; it
//! looks at these sources only after one of them has woken it, and not in every turn.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use face::Figures;
use tokio::sync::{mpsc, oneshot};

use super::figures::Counts;
use super::reload::{Read, Reload};
use super::signals::Signal;
use super::volume::Volume;
use crate::disk::Report;

/// Looks at sources that remember the waker of the last look, as queues do, also when the future of that look is dropped.
#[derive(Debug)]
pub(super) struct Seldom {
    woken: Arc<Woken>,
    waker: Waker,
}

#[derive(Debug)]
struct Woken {
    woken: AtomicBool,
    /// The task that looks.
    owner: Mutex<Option<Waker>>,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(owner) = owner {
            owner.wake();
        }
    }
}

impl Default for Seldom {
    /// The first look is at the sources.
    fn default() -> Self {
        let woken = Arc::new(Woken { woken: AtomicBool::new(true), owner: Mutex::default() });
        Seldom { waker: Waker::from(Arc::clone(&woken)), woken }
    }
}

impl Seldom {
    /// The next event of a source. Cancel-safe if `source` is.
    pub(super) async fn next<T>(&self, mut source: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
        poll_fn(|cx| self.poll(cx, &mut source)).await
    }

    fn poll<T>(&self, cx: &Context<'_>, source: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // Before the look: a source that becomes ready behind it wakes again.
        if !self.woken.woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        {
            let mut owner = self.woken.owner.lock().unwrap_or_else(PoisonError::into_inner);
            if !owner.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *owner = Some(cx.waker().clone());
            }
        }
        let found = source(&mut Context::from_waker(&self.waker));
        if found.is_ready() {
            // There may be more.
            self.woken.woken.store(true, Ordering::Release);
        }
        found
    }
}

/// What comes before the events of peers and clients: of each kind there is little.
pub(super) enum News {
    /// Writes finish rarely, and an election must not wait for one behind clients that never stop asking.
    Written(Report),
    Signal(Signal),
    Reloaded(Read),
    /// The HTTP face asks for each scrape once.
    Question(oneshot::Sender<Figures>),
}

/// Looks at each source once.
pub(super) fn look(
    volume: &mut Volume,
    signals: &mut mpsc::Receiver<Signal>,
    reload: &mut Reload,
    counts: &mut Counts,
    cx: &mut Context<'_>,
) -> Poll<News> {
    if let Poll::Ready(report) = pin!(volume.written()).poll(cx) {
        return Poll::Ready(News::Written(report));
    }
    if let Poll::Ready(Some(signal)) = signals.poll_recv(cx) {
        return Poll::Ready(News::Signal(signal));
    }
    if let Poll::Ready(read) = pin!(reload.done()).poll(cx) {
        return Poll::Ready(News::Reloaded(read));
    }
    pin!(counts.question()).poll(cx).map(News::Question)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_source_is_looked_at_when_it_has_woken_and_until_it_is_empty() {
        let (seldom, wakes) = (Seldom::default(), Arc::new(Wakes::default()));
        let waker = Waker::from(Arc::clone(&wakes));
        let cx = Context::from_waker(&waker);
        let (sender, mut queue) = mpsc::channel(3);
        let mut looks = 0;
        let mut look = |seldom: &Seldom| {
            seldom.poll(&cx, |cx| {
                looks += 1;
                queue.poll_recv(cx)
            })
        };
        assert!(look(&seldom).is_pending());
        for _ in 0..5 {
            assert!(look(&seldom).is_pending());
        }
        sender.try_send(7).unwrap();
        sender.try_send(8).unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(
            [look(&seldom), look(&seldom), look(&seldom)],
            [Poll::Ready(Some(7)), Poll::Ready(Some(8)), Poll::Pending]
        );
        assert!(look(&seldom).is_pending());
        sender.try_send(9).unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
        assert_eq!(look(&seldom), Poll::Ready(Some(9)));
        assert_eq!(looks, 5, "one at the start, one for each element, one that found nothing");
    }
}
