//! Several requests posted with one doorbell, and several notifications taken with one look.

use std::time::Duration;

use crate::fake::Fake;
use hamlyn::{
    Arrival, Card, Message, Notification, NotificationQueue, OverrunError, Slot, Source, Terminus, Ticket,
};

/// Creates a card, one of its termini, and a slot with its queue.
fn bench(entries: u32) -> (Fake, Terminus, NotificationQueue, Slot, Ticket) {
    let fake = Fake::default();
    let card = Card::attached(fake.share());
    let queue = card.create_queue(entries).unwrap();
    let slot = card.slot(&card.create_area(64).unwrap()).queue(&queue).create().unwrap();
    let ticket = slot.fast_ticket().unwrap();
    (fake, card.create_terminus().unwrap(), queue, slot, ticket)
}

/// Returns messages whose words and contexts count from 0.
fn batch(ticket: &Ticket, count: u32) -> Vec<(Message<'_>, Source<'static>)> {
    let message = |number: u32| Message::to(ticket).word(number).context(1000 + u64::from(number));
    (0..count).map(|number| (message(number), b"one of many".into())).collect()
}

fn words(notifications: &[Notification]) -> Vec<u32> {
    let word = |notification: &Notification| match notification.arrival {
        Arrival::Fast(word) => word,
        Arrival::Metadata(_) => panic!("{notification:?}"),
    };
    notifications.iter().map(word).collect()
}

/// The card is never awake, so each store of the work queue's tail rings the doorbell.
#[test]
fn a_batch_is_published_once() {
    let (fake, terminus, queue, _slot, ticket) = bench(64);
    fake.hold(true);
    let handles = terminus.try_send_batch(&batch(&ticket, 20)).unwrap();
    assert_eq!(fake.rings(), 1);
    assert!(handles.iter().all(|handle| !handle.is_complete().unwrap()));
    fake.hold(false);
    let contexts: Vec<u64> = handles.iter().map(hamlyn::Handle::context).collect();
    assert_eq!(contexts, (1000..1020).collect::<Vec<u64>>());
    assert!(handles.iter().all(|handle| handle.is_complete().unwrap()));
    let mut came = Vec::new();
    assert_eq!(queue.recv_many(&mut came, 100).unwrap(), 20);
    assert_eq!(words(&came), (0..20).collect::<Vec<u32>>());
    // An empty batch is not published at all.
    assert!(terminus.send_batch(&[]).unwrap().is_empty());
    assert_eq!(fake.rings(), 1);
    let single = terminus.send(&Message::to(&ticket).context(7), b"alone").unwrap();
    assert_eq!((single.context(), fake.rings()), (7, 2));
}

#[test]
fn a_wrong_message_stops_its_batch() {
    let (fake, terminus, queue, _slot, ticket) = bench(64);
    let mut requests = batch(&ticket, 5);
    requests.push((Message::to(&ticket).offset(60), b"past the end".into()));
    assert!(terminus.send_batch(&requests).is_err());
    assert!(terminus.try_send_batch(&requests).is_err());
    assert_eq!((fake.rings(), queue.try_recv().unwrap()), (0, None));
    assert_eq!(terminus.completed(), 0);
}

#[test]
fn a_batch_larger_than_the_queue_is_divided() {
    let (fake, terminus, queue, _slot, ticket) = bench(256);
    let requests = batch(&ticket, 200);
    fake.hold(true);
    let first = terminus.try_send_batch(&requests).unwrap();
    assert_eq!((first.len(), fake.rings()), (63, 1));
    assert!(terminus.try_send_batch(&requests).unwrap_err().is_would_block());
    let short = Duration::from_millis(1);
    assert!(terminus.send_batch_timeout(&requests, short).unwrap_err().is_timed_out());
    fake.take(10);
    // The first ten are sent. The timeout expires before the work queue has room for the others.
    let some = terminus.send_batch_timeout(&requests, short).unwrap();
    assert_eq!(some.len(), 10);
    fake.hold(false);
    let all = terminus.send_batch(&requests).unwrap();
    assert_eq!(all.iter().map(|handle| handle.context()).max(), Some(1199));
    all.iter().for_each(|handle| handle.wait().unwrap());
    let mut came = Vec::new();
    while queue.try_recv_many(&mut came, 256).unwrap_or(1) > 0 {}
    assert_eq!(words(&came)[came.len() - 200..], (0..200).collect::<Vec<u32>>());
}

#[test]
fn recv_many_takes_what_is_there() {
    let (_fake, terminus, queue, _slot, ticket) = bench(64);
    let mut came = Vec::new();
    assert_eq!(queue.try_recv_many(&mut came, 10).unwrap(), 0);
    let late = queue.recv_many_timeout(&mut came, 10, Duration::from_millis(1));
    assert!(late.unwrap_err().is_timed_out());
    let _ = terminus.send_batch(&batch(&ticket, 25)).unwrap();
    assert_eq!(queue.recv_many(&mut came, 0).unwrap(), 0);
    assert_eq!(queue.try_recv_many(&mut came, 10).unwrap(), 10);
    assert_eq!(queue.try_recv().unwrap().map(|next| words(&[next])), Some(vec![10]));
    assert_eq!(queue.recv_many(&mut came, 100).unwrap(), 14);
    assert_eq!(words(&came), (0..10).chain(11..25).collect::<Vec<u32>>());
    assert_eq!(queue.try_recv_many(&mut came, 10).unwrap(), 0);
}

#[test]
fn recv_many_reports_an_overrun_once() {
    let (_fake, terminus, queue, _slot, ticket) = bench(4);
    let mut came = Vec::new();
    let _ = terminus.send_batch(&batch(&ticket, 10)).unwrap();
    assert!(queue.try_recv_many(&mut came, 10).unwrap_err().is_overrun());
    assert_eq!(queue.overruns(), (1, 6));
    assert_eq!(queue.try_recv_many(&mut came, 10).unwrap(), 4);
    assert_eq!(words(&came), [6, 7, 8, 9]);
    assert_eq!(queue.overruns(), (1, 6));
}

/// The card overwrites entries while the reader takes several with one look.
#[test]
fn each_notification_is_taken_or_reported_lost() {
    const SENT: u64 = 500_000;
    let (_fake, terminus, queue, _slot, ticket) = bench(4);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            for _ in 0..SENT / 10 {
                let _ = terminus.send_batch(&batch(&ticket, 10)).unwrap();
            }
        });
        let (mut received, mut lost, mut came) = (0, 0, Vec::new());
        loop {
            let is_over = sending.is_finished();
            match queue.try_recv_many(&mut came, 4) {
                Ok(0) if is_over => break,
                Ok(taken) => received += taken as u64,
                Err(error) => lost += error.of::<OverrunError>().unwrap_or_else(|| panic!("{error}")).lost,
            }
            came.clear();
        }
        assert_eq!((received + lost, queue.overruns().1), (SENT, lost), "{received} were received");
    });
}
