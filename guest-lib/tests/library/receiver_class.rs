//! Receiver classes of the application, and how the manager finds them (section 3.3, Table 2).

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::fake::Fake;
use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
use hamlyn::{Arrived, Card, EndPoint, Manager, Message, Ready, ReceiverClass};

const PATIENCE: Duration = Duration::from_secs(10);

/// Records arrivals: the entry, and the first byte of its metadata.
#[derive(Debug)]
struct Log {
    end_point: EndPoint,
    came: Mutex<Vec<(u32, u8)>>,
    lost: Mutex<u32>,
}

impl Log {
    fn create(manager: &Manager, entries: u32) -> Arc<Self> {
        let end_point = EndPoint::create(manager, entries, 16).unwrap();
        end_point.open(|end_point| Self { end_point, came: Mutex::default(), lost: Mutex::default() })
    }

    fn came(&self) -> Vec<(u32, u8)> {
        std::mem::take(&mut self.came.lock().unwrap())
    }
}

impl ReceiverClass for Log {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        self.came.lock().unwrap().push((arrival.entry, arrival.metadata.user()[0]));
        ready.add(Some(77));
        self.end_point.reopen(arrival.entry);
    }

    fn arrivals_lost(&self, _: &mut Ready) {
        *self.lost.lock().unwrap() += 1;
    }
}

fn send(manager: &Manager, log: &Log, entry: u32, mark: u8) {
    let ticket = log.end_point.ticket(entry).unwrap();
    let metadata = [mark; 60];
    let message = Message::to(&ticket).metadata(&metadata);
    let _ = manager.terminus().send(&message, b"data").unwrap();
}

#[test]
fn custom_class_receives_beside_library_classes() {
    let manager = Manager::create(&Card::attached(Fake::default().share())).unwrap();
    let log = Log::create(&manager, 3);
    let place = DatagramReceiver::create(&manager, 16).unwrap();
    // All the metadata that a sender may write; the pointer is after it.
    send(&manager, &log, 2, 0xff);
    DatagramSender::new(&manager).send(&place.ticket().unwrap(), b"other", 0, None).unwrap();
    send(&manager, &log, 0, 5);
    assert_eq!(place.recv_timeout(PATIENCE).unwrap().to_vec(), b"other");
    let both = || Ok(Some(log.came.lock().unwrap().clone()).filter(|came| came.len() == 2));
    assert_eq!(manager.wait_until_timeout("two messages", PATIENCE, both).unwrap(), [(2, 0xff), (0, 5)]);
    let mut bytes = [0; 4];
    log.end_point.area().read(log.end_point.start(2), &mut bytes).unwrap();
    assert_eq!((&bytes, manager.ready(), manager.unclaimed()), (b"data", vec![77], 0));
    let none = manager.wait_until_timeout::<()>("a third", Duration::ZERO, || Ok(None)).unwrap_err();
    assert_eq!(none.to_string(), "no a third within 0ns");
}

#[test]
fn entry_selects_the_receiver_of_a_message() {
    let manager = Manager::create(&Card::attached(Fake::default().share())).unwrap();
    let (log, other) = (Log::create(&manager, 2), Log::create(&manager, 1));
    let weak: Weak<Log> = Arc::downgrade(&other);
    let class = manager.register(weak);
    let entry = log.end_point.slot().metadata(1).unwrap();
    let own = entry.receive_class();
    entry.set_receive_class(class.pointer());
    send(&manager, &log, 0, 1);
    send(&manager, &log, 1, 2);
    assert_eq!(manager.poll_all().unwrap(), 2);
    assert_eq!((log.came(), other.came()), (vec![(0, 1)], vec![(1, 2)]));

    // An unused number, an address, and a class that is gone: no receiver is called.
    log.end_point.reopen(1);
    for (count, wrong) in
        [0, u64::MAX, Arc::as_ptr(&log) as u64, class.pointer() + (1 << 32)].iter().enumerate()
    {
        entry.set_receive_class(*wrong);
        send(&manager, &log, 1, 3);
        manager.poll_all().unwrap();
        log.end_point.reopen(1);
        assert_eq!((log.came(), other.came(), manager.unclaimed()), (vec![], vec![], count as u64 + 1));
    }
    entry.set_receive_class(class.pointer());
    drop(class);
    send(&manager, &log, 1, 4);
    manager.poll_all().unwrap();
    assert_eq!((other.came(), manager.unclaimed()), (vec![], 5));
    log.end_point.reopen(1);
    entry.set_receive_class(own);
    send(&manager, &log, 1, 5);
    manager.poll_all().unwrap();
    assert_eq!(log.came(), [(1, 5)]);
}

#[test]
fn library_receiver_ignores_foreign_entries() {
    let manager = Manager::create(&Card::attached(Fake::default().share())).unwrap();
    let log = Log::create(&manager, 9);
    let place = DatagramReceiver::create(&manager, 16).unwrap();
    // This is the next pointer in the table. An application that writes it into its own entry gets
    // that class called for it.
    let guess = log.end_point.slot().metadata(8).unwrap().receive_class() + 1;
    log.end_point.slot().metadata(8).unwrap().set_receive_class(guess);
    send(&manager, &log, 8, 1);
    assert_eq!((manager.poll_all().unwrap(), manager.unclaimed()), (1, 0));
    assert!(place.try_recv().unwrap_err().is_would_block());
}

#[test]
fn losses_are_reported_to_named_receivers_only() {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let manager = Manager::create_with(&card, 4, hamlyn::Polling::default()).unwrap();
    // Both are on one queue.
    let (first, second) = (Log::create(&manager, 2), Log::create(&manager, 2));
    let bystander = Log::create(&Manager::create(&card).unwrap(), 1);
    fake.babble(100);
    assert!(manager.poll_all().unwrap_err().is_overrun());
    let _ = manager.poll_all();
    let lost = [&first, &second, &bystander].map(|log| *log.lost.lock().unwrap());
    assert!(lost[0] > 0 && lost[1] > 0 && lost[2] == 0, "{lost:?}");
}

#[test]
fn invalid_end_points_are_refused() {
    let card = Card::attached(Fake::default().share());
    let manager = Manager::create(&card).unwrap();
    assert!(EndPoint::create(&manager, 0, 16).is_err());
    let area = card.create_area(100).unwrap();
    assert!(EndPoint::create_in(&manager, &area, 7, 15).is_err());
    let end_point = EndPoint::create_in(&manager, &area, 5, 20).unwrap();
    assert_eq!((end_point.start(4), end_point.part_length(), end_point.is_locked(4)), (80, 20, false));
    assert!(end_point.ticket(5).is_err() && !end_point.is_locked(5));
    end_point.reopen(5);
}
