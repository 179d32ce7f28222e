//! Listeners of channels and of streams, whose names requests of other protocols reach, too.

use std::thread;
use std::time::Duration;

use crate::fake::Fake;
use crate::fake::express::OTHER;
use hamlyn::channel::{Listener, Options};
use hamlyn::protocol::stream::StreamListener;
use hamlyn::{Card, Connecting, Manager};

#[test]
fn listener_rejects_requests_of_other_protocols() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let listener = Listener::bind(&card.clone().into(), "name", Options::default()).unwrap();
    let asking = thread::spawn(move || card.connect(OTHER, "name", b"hello").unwrap_err());
    while !asking.is_finished() {
        let timed_out = listener.accept_timeout(Duration::from_millis(20));
        assert!(timed_out.unwrap_err().is_timed_out());
    }
    drop(listener);
    let told = asking.join().unwrap();
    assert!(told.to_string().contains("an offer that is not of a channel"), "{told}");
}

/// Creates listeners for channels and streams. Each has `strangers` requests of an unknown
/// protocol.
fn listeners_with_strangers(strangers: usize) -> (Fake, Listener, StreamListener, Vec<Connecting>) {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let manager = Manager::create(&card).unwrap();
    let channels = Listener::bind(&card.clone().into(), "channels", Options::default()).unwrap();
    let streams = StreamListener::bind(&manager, "streams").unwrap();
    let names = ["channels", "streams"].repeat(strangers);
    let asking = names.iter().map(|name| card.begin_connect(OTHER, name, b"hello").unwrap()).collect();
    (fake, channels, streams, asking)
}

#[test]
fn listener_times_out_while_it_rejects_others() {
    let (fake, channels, streams, _asking) = listeners_with_strangers(3);
    let short = Duration::from_nanos(1);
    for left in [2, 1, 0] {
        assert!(channels.accept_timeout(short).unwrap_err().is_timed_out());
        assert!(streams.request_timeout(short).err().unwrap().is_timed_out());
        assert_eq!((fake.requests("channels"), fake.requests("streams")), (left, left));
    }
}

#[test]
fn listener_poll_leaves_no_request() {
    // A request left in the queue would not wake an edge-triggered loop.
    let (fake, channels, streams, _asking) = listeners_with_strangers(3);
    let none = channels.try_accept().unwrap_err();
    assert!(none.is_would_block(), "{none}");
    assert_eq!(none.to_string(), "no requests for a channel are available now");
    assert!(streams.try_accept().err().unwrap().is_would_block());
    assert_eq!((fake.requests("channels"), fake.requests("streams")), (0, 0));
}

#[test]
fn listener_poll_ends_under_a_flood() {
    // More requests have arrived than can wait at once, so some arrived after the poll began. An
    // edge-triggered loop is woken for those.
    let (fake, channels, streams, _asking) = listeners_with_strangers(64 + 5);
    assert!(channels.try_accept().unwrap_err().is_would_block());
    assert!(streams.try_request().err().unwrap().is_would_block());
    assert_eq!((fake.requests("channels"), fake.requests("streams")), (5, 5));
    assert!(streams.try_accept().err().unwrap().is_would_block());
    assert_eq!(fake.requests("streams"), 0);
}
