//! How busy termini share the link: equally, or in proportion to their weights. The share is in
//! bytes, whatever the message length.

use crate::support::{AREA, Host, request};
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_abi::hamlyn::window::{HAMLYN_WINDOW_AWAKE, HAMLYN_WINDOW_SIZE};
use hamlyn_card::card::{Card, Progress};
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use zerocopy::IntoBytes;

/// Messages of a terminus: their bytes of data and of metadata.
type Shape = (u32, u32);

/// Busy termini, whose queues are never empty.
struct Busy {
    host: Host,
    queued: Vec<i64>,
}

impl Busy {
    fn new(weights: &[u32]) -> Self {
        let mut host = Host::new(0, HamlynOptions { packet_size: 1024, ..HamlynOptions::default() });
        for (terminus, weight) in weights.iter().enumerate() {
            host.open_terminus_weighted(terminus as u32, *weight);
            let area = host.area(AREA, 0);
            host.set_send_buffer(terminus as u32, 0, &area);
        }
        Self { host, queued: vec![0; weights.len()] }
    }

    /// Posts a message. Its slot is the terminus's number, so that the packets reveal their sender.
    fn post(&mut self, terminus: usize, (length, metadata_length): Shape) {
        let tuple = HamlynGather { tag: 0, reserved: 0, offset: 0, length: length + metadata_length };
        let message = HamlynRequest {
            slot: terminus as u32,
            flags: HAMLYN_REQUEST_DMA,
            gather_count: 1,
            metadata_length,
            ..request(0, length)
        };
        self.host.post(terminus as u32, message, tuple.as_bytes());
        self.queued[terminus] += i64::from(length.div_ceil(1024));
    }

    /// Sends `packets` packets, of one shape from each terminus. Returns the bytes that each has
    /// sent.
    fn send(&mut self, shapes: &[Shape], packets: usize) -> Vec<usize> {
        let mut sent = vec![0; shapes.len()];
        for _ in 0..packets {
            for (terminus, shape) in shapes.iter().enumerate() {
                while self.queued[terminus] < 8 {
                    self.post(terminus, *shape);
                }
            }
            assert_eq!(self.host.with_card(|card, ports, wire| card.transmit(ports, wire)), Progress::Worked);
            for (_, bytes) in self.host.wire.sent.drain(..) {
                sent[bytes[0] as usize] += bytes.len();
                self.queued[bytes[0] as usize] -= 1;
            }
        }
        sent
    }
}

/// Returns whether each terminus has its share of the whole within 10%.
fn in_proportion(sent: &[usize], weights: &[u32]) -> bool {
    let (whole, weight): (usize, u32) = (sent.iter().sum(), weights.iter().sum());
    sent.iter().zip(weights).all(|(sent, share)| {
        let due = whole * *share as usize / weight as usize;
        sent.abs_diff(due) * 10 <= due
    })
}

#[test]
fn busy_termini_get_equal_bandwidth() {
    let shapes = [(16, 0), (100, 60), (1024, 0), (5000, 0), (60_000, 4)];
    let sent = Busy::new(&[1; 5]).send(&shapes, 8000);
    assert!(in_proportion(&sent, &[1; 5]), "{sent:?}");
}

#[test]
fn weights_divide_the_link() {
    let weights = [1, 2, 5, 8];
    let sent = Busy::new(&weights).send(&[(1000, 0), (1000, 0), (3000, 0), (64, 0)], 20_000);
    assert!(in_proportion(&sent, &weights), "{sent:?}");
}

#[test]
fn large_packets_leave_no_lasting_overdraft() {
    let mut busy = Busy::new(&[1, 1]);
    let sent = busy.send(&[(1024, 60), (16, 0)], 50_000);
    assert!(in_proportion(&sent, &[1, 1]), "{sent:?}");
    // As both now send messages of the same shape, both get the same bandwidth.
    busy.send(&[(16, 0), (16, 0)], 100);
    let sent = busy.send(&[(16, 0), (16, 0)], 2000);
    assert!(in_proportion(&sent, &[1, 1]), "{sent:?}");
}

#[test]
fn refused_requests_do_not_keep_the_turn() {
    let mut host = Host::new(0, HamlynOptions::default());
    host.open_terminus(0);
    host.open_terminus(1);
    host.post(1, request(0, 4), b"data");
    // A terminus that posts invalid requests as fast as the card can refuse them.
    let mut turns = 0;
    while host.wire.sent.is_empty() {
        host.post(0, HamlynRequest { flags: 1 << 31, ..request(0, 0) }, b"");
        host.with_card(|card, ports, wire| card.transmit(ports, wire));
        turns += 1;
        assert!(turns < 200, "its neighbour is never served");
    }
}

#[test]
fn idle_terminus_sleeps_while_others_are_busy() {
    let mut host = Host::new(0, HamlynOptions::default());
    host.open_terminus(0);
    host.open_terminus(1);
    let awake = |host: &Host, terminus: u32| {
        host.window.load(u64::from(terminus * HAMLYN_WINDOW_SIZE + HAMLYN_WINDOW_AWAKE)) != 0
    };
    host.post(1, request(0, 4), b"once");
    for round in 0..200_000 {
        host.post(0, request(0, 448), &[7; 448]);
        host.wire.sent.clear();
        host.with_card(|card, ports, wire| card.transmit(ports, wire));
        assert!(round > 100 || awake(&host, 1), "it may well send more soon");
    }
    assert!(awake(&host, 0) && !awake(&host, 1));
    let before = host.wire.sent.len();
    host.post(1, request(0, 4), b"more");
    host.transmit_all();
    assert_eq!(host.wire.sent.len(), before + 2, "its owner rings, and both are served");
}
