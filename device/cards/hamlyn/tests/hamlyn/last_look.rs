//! No lost wake-up: a request posted at the moment when the card stops polling is still sent
//! (section 2.3).

use std::cell::Cell;

use crate::support::{Host, request};
use hamlyn_abi::hamlyn::command::HAMLYN_COMMAND_CLOSE_TERMINUS;
use hamlyn_abi::hamlyn::window::{HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_TAIL};
use hamlyn_card::card::Card;
use hamlyn_card::ports::{Ports, Window};
use hamlyn_card_hamlyn::{HamlynCard, HamlynOptions};
use hamlyn_test_host::{Pages, Wire};

const AWAKE: u64 = HAMLYN_WINDOW_AWAKE as u64;
const TAIL: u64 = HAMLYN_WINDOW_TAIL as u64;

/// Terminus 0's owner posts once, just before the card reports that it sleeps. So the owner sees no
/// reason to ring.
struct Racing<'a> {
    pages: &'a Pages,
    posted: &'a Cell<bool>,
}

impl Window for Racing<'_> {
    fn load(&self, offset: u64) -> u32 {
        self.pages.load(offset)
    }

    fn store(&self, offset: u64, value: u32) {
        if (offset, value) == (AWAKE, 0) && !self.posted.replace(true) {
            self.pages.store(TAIL, self.pages.load(TAIL).wrapping_add(1));
        }
        self.pages.store(offset, value);
    }

    fn copy_out(&self, offset: u64, into: &mut [u8]) {
        self.pages.copy_out(offset, into);
    }

    fn clear(&self, offset: u64, length: u64) {
        self.pages.clear(offset, length);
    }
}

fn race<T>(
    host: &mut Host,
    posted: &Cell<bool>,
    verb: impl FnOnce(&mut HamlynCard, &Ports<'_>, &mut Wire) -> T,
) -> T {
    let hamlyn_test_host::Host { card, memory, window, interrupts, clock, wire, .. } = &mut **host;
    let window = Racing { pages: window, posted };
    verb(card, &Ports { dma: memory, windows: &window, interrupt: interrupts, clock }, wire)
}

/// Returns a host whose terminus 0 has sent one packet and nothing since.
fn host() -> Host {
    let mut host = Host::new(0, HamlynOptions { packet_size: 256, ..HamlynOptions::default() });
    host.open_terminus(0);
    host.open_terminus(1);
    host.post(0, request(0, 0), b"");
    host.with_card(|card, ports, wire| card.transmit(ports, wire));
    assert_eq!(host.wire.sent.len(), 1);
    host
}

#[test]
fn card_looks_again_before_it_sleeps() {
    let (mut host, posted) = (host(), Cell::new(false));
    assert!(!race(&mut host, &posted, |card, ports, _| card.sleep(ports)), "there is work");
    assert_eq!(host.window.load(AWAKE), 1);
    host.with_card(|card, ports, wire| card.transmit(ports, wire));
    assert_eq!(host.wire.sent.len(), 2);
    assert!(race(&mut host, &posted, |card, ports, _| card.sleep(ports)), "there is none");
    assert_eq!(host.window.load(AWAKE), 0);
}

#[test]
fn idle_terminus_is_checked_again_before_it_sleeps() {
    let (mut host, posted) = (host(), Cell::new(false));
    for _ in 0..100_000 {
        host.post(1, request(0, 256), &[0; 256]);
        race(&mut host, &posted, |card, ports, wire| card.transmit(ports, wire));
        if host.window.load(AWAKE) == 0 {
            // The request posted in the race has an all-zero header. The others name a slot.
            let late = host.wire.sent.iter().filter(|(_, bytes)| bytes[0] == 0).count();
            assert_eq!((posted.get(), late), (true, 1));
            return;
        }
    }
    panic!("the card looks at an idle terminus for ever");
}

#[test]
fn terminus_closed_while_awake_starts_afresh() {
    let mut host = host();
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, 0, 0_u64).unwrap();
    assert_eq!(host.window.load(AWAKE), 0);
    host.open_terminus(0);
    host.post(0, request(0, 0), b"");
    assert_eq!(host.window.load(AWAKE), 1, "its owner rang once, and need not ring again");
}
