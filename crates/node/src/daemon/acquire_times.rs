//! How long requests for locks wait, measured where they arrive. In fixed memory: of requests at the same time some are left
//! out, and none costs more than a few words.

use std::time::Duration;

use face::Histogram;
use locks::service::StreamId;
use locks::wire::RequestId;

const SLOTS: u64 = 256;

#[derive(Debug)]
pub(super) struct AcquireTimes {
    /// Requests that wait, each in the place that its numbers give it; a later one takes the place.
    waiting: Vec<Option<(StreamId, RequestId, Duration)>>,
    times: Histogram,
}

impl AcquireTimes {
    pub(super) fn new() -> Self {
        AcquireTimes { waiting: vec![None; SLOTS as usize], times: Histogram::new(Histogram::WAIT) }
    }

    pub(super) fn asked(&mut self, stream: StreamId, request: RequestId, now: Duration) {
        self.waiting[place(stream, request)] = Some((stream, request, now));
    }

    pub(super) fn granted(&mut self, stream: StreamId, request: RequestId, now: Duration) {
        let is_it = |asked: &mut (StreamId, RequestId, Duration)| (asked.0, asked.1) == (stream, request);
        if let Some((.., asked)) = self.waiting[place(stream, request)].take_if(is_it) {
            self.times.observe(now.saturating_sub(asked));
        }
    }

    pub(super) fn times(&self) -> &Histogram {
        &self.times
    }
}

fn place(stream: StreamId, request: RequestId) -> usize {
    (stream.0.wrapping_mul(31).wrapping_add(request.0) % SLOTS) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_measured_from_its_own_request() {
        let mut times = AcquireTimes::new();
        let at = Duration::from_millis;
        times.asked(StreamId(1), RequestId(1), at(10));
        times.asked(StreamId(2), RequestId(1), at(20));
        times.granted(StreamId(1), RequestId(1), at(12));
        times.granted(StreamId(1), RequestId(1), at(90));
        times.granted(StreamId(3), RequestId(9), at(90));
        times.granted(StreamId(2), RequestId(1), at(420));
        let mut expected = Histogram::new(Histogram::WAIT);
        for ms in [2, 400] {
            expected.observe(at(ms));
        }
        assert_eq!(format!("{:?}", times.times()), format!("{expected:?}"));
    }
}
