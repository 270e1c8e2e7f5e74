use super::*;

fn filled(events: u64) -> Events {
    let all = Events::new().unwrap();
    for number in 1..=events {
        all.lock().append(Bytes::from(format!("data: {number}\n\n")));
    }
    all
}

#[test]
fn a_client_that_comes_back_gets_what_it_missed_or_is_told_how_much() {
    let events = filled(BUFFER_EVENTS as u64 + 10);
    let buffer = events.lock();
    let id = |number: u64| format!("{:08x}-{number}", buffer.origin);
    assert_eq!(buffer.behind(&id(20)), Some(21));
    let (bytes, next) = buffer.chunk(buffer.next() - 2);
    assert_eq!((String::from_utf8(bytes).unwrap(), next), ("data: 1033\n\ndata: 1034\n\n".to_owned(), 1035));
    let text = String::from_utf8(buffer.chunk(4).0).unwrap();
    let missed = "event: gap\ndata: {\"schema\":\"conclave.gap/1\",\"missed\":7,\"id\":null}\n\ndata: 11\n\n";
    assert!(text.starts_with(missed), "{text}");
    for foreign in ["", "x", "1-2", &id(1035), &format!("{:08x}-3", buffer.origin ^ 1)] {
        assert_eq!(buffer.behind(foreign), None, "{foreign}");
    }
}

#[tokio::test]
async fn a_crowd_is_told_a_few_clients_at_a_time_and_everybody_is() {
    let events = Arc::new(Events::new().unwrap());
    let seats: Vec<Seat> = (0..2 * TELL_AT_ONCE + 3).filter_map(|_| Seat::take(&events)).collect();
    let mut told = Vec::new();
    let mut behind = Bound::Unbounded;
    while let Some(last) = events.wake_some(behind) {
        told.push(last as usize + 1);
        behind = Bound::Excluded(last);
    }
    assert_eq!(told, [TELL_AT_ONCE, 2 * TELL_AT_ONCE, seats.len()]);
    let everybody = async || {
        for seat in &seats {
            let woken = tokio::time::timeout(Duration::from_secs(20), seat.wake.notified()).await;
            woken.unwrap_or_else(|_| panic!("{} is not told", seat.number));
        }
    };
    everybody().await;
    let telling = tokio::spawn(Arc::clone(&events).tell());
    events.news.notify_one();
    everybody().await;
    telling.abort();
    drop(seats);
    assert!(events.lock().seats.is_empty());
}

#[tokio::test]
async fn streams_are_bounded_and_one_that_ends_makes_room() {
    let events = Arc::new(Events::new().unwrap());
    let mut seats: Vec<Seat> = (0..STREAMS_MAX + 9).filter_map(|_| Seat::take(&events)).collect();
    assert_eq!(seats.len(), STREAMS_MAX);
    assert!(events.subscribe(false, None).is_err());
    seats.pop();
    assert!(events.subscribe(false, None).is_ok());
}

/// What a client is sent, from a stream that nobody reads for a while.
#[tokio::test]
async fn a_slow_reader_is_told_how_much_it_missed_and_then_the_rest() {
    let events = Arc::new(filled(3));
    let (chunks, mut told) = mpsc::channel(1);
    let feeding = tokio::spawn(Seat::take(&events).unwrap().feed(None, chunks));
    assert_eq!(told.recv().await.as_deref(), Some(&b"retry: 1000\n\n"[..]));
    // It waits for news; more of them than the buffer holds come before it wakes.
    tokio::task::yield_now().await;
    for number in 1..=BUFFER_EVENTS as u64 + 7 {
        events.lock().append(Bytes::from(format!("data: later {number}\n\n")));
    }
    assert!(events.wake_some(Bound::Unbounded).is_some());
    let text = String::from_utf8(told.recv().await.unwrap().to_vec()).unwrap();
    let missed = "event: gap\ndata: {\"schema\":\"conclave.gap/1\",\"missed\":7,\"id\":null}\n\ndata: later 8\n\n";
    assert!(text.starts_with(missed), "{text}");
    drop(told);
    feeding.await.unwrap();
    assert!(events.lock().seats.is_empty(), "a client that has gone leaves its seat");
}

#[test]
fn the_buffer_is_bounded_in_events_and_in_bytes() {
    let events = filled(3 * BUFFER_EVENTS as u64);
    let mut buffer = events.lock();
    assert_eq!(buffer.kept.len(), BUFFER_EVENTS);
    for _ in 0..20 {
        buffer.append(Bytes::from(vec![b'x'; BUFFER_BYTES / 4]));
    }
    assert!(buffer.bytes <= BUFFER_BYTES && buffer.kept.len() <= 4);
    assert_eq!(buffer.bytes, buffer.kept.iter().map(Bytes::len).sum::<usize>());
    let (bytes, _) = buffer.chunk(buffer.first);
    assert!(bytes.len() <= CHUNK_BYTES + BUFFER_BYTES / 4);
}
