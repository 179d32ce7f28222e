//! Accesses that arrive while the function is not ready for them.

use crate::access::write_one;
use crate::harness::*;

/// Sets how many accesses the function accepts from now on, and calls the server.
fn let_through(harness: &mut Harness, takes: Option<usize>) {
    harness.function.takes = takes;
    harness.server.process(&mut harness.function).unwrap();
    harness.pump();
}

#[test]
fn accesses_wait_in_order_until_function_is_ready() {
    let mut harness = Harness::ready();
    harness.function.takes = Some(0);
    harness.send(REGION_WRITE, 0, &[&access(REGISTERS, 0, 4)[..], &[1; 4]].concat(), &[]);
    let read = harness.send(REGION_READ, 0, &access(REGISTERS, 0x20, 4), &[]);
    // The server's descriptor must not signal messages that are not to be read yet.
    harness.pump();
    assert!(harness.server.is_held() && harness.client.receive().is_none());
    assert_eq!(harness.take_events(), []);
    let_through(&mut harness, Some(1));
    assert_eq!(harness.take_events(), [Event::Write(0, 0, vec![1; 4])]);
    assert!(harness.server.is_held(), "the read waits");
    harness.client.receive().unwrap().ok();
    let_through(&mut harness, None);
    let reply = harness.client.receive().unwrap();
    assert_eq!((reply.id, reply.ok()), (read, [access(REGISTERS, 0x20, 4), vec![0x20, 0, 0, 0]].concat()));
    assert!(!harness.server.is_held());
}

#[test]
fn write_list_can_wait_at_any_write() {
    let mut harness = Harness::ready();
    harness.function.takes = Some(5);
    let writes: Vec<u8> = (0..9).flat_map(|at| write_one(REGISTERS, at * 4, &[7; 4])).collect();
    harness.send(WRITE_MULTI, 0, &[u64s(&[9]), writes].concat(), &[]);
    harness.pump();
    assert_eq!((harness.take_events().len(), harness.server.is_held()), (5, true));
    assert!(harness.client.receive().is_none());
    let_through(&mut harness, Some(4));
    let rest: Vec<Event> = (5..9).map(|at| Event::Write(0, at * 4, vec![7; 4])).collect();
    assert_eq!(harness.take_events(), rest);
    assert_eq!(harness.client.receive().unwrap().ok(), u64s(&[9]));
}

#[test]
fn untrapped_requests_do_not_wait() {
    let mut harness = Harness::ready();
    harness.function.takes = Some(0);
    harness.read(CONFIG, 0, 4).ok();
    harness.write(WINDOW, 0, &[1]).ok();
    harness.call(DEVICE_RESET, &[]).ok();
    assert!(!harness.server.is_held());
}

#[test]
fn client_can_disconnect_while_its_access_waits() {
    let mut harness = Harness::ready();
    harness.function.takes = Some(0);
    harness.send(REGION_READ, 0, &access(REGISTERS, 0, 4), &[]);
    harness.pump();
    harness.client.stream.shutdown(std::net::Shutdown::Both).unwrap();
    harness.pump();
    assert!(!harness.server.has_client() && !harness.server.is_held());
    assert_eq!(harness.take_events(), [Event::Reset(hamlyn_bus::ResetCause::ClientLeft)]);
    harness.reconnect();
    harness.negotiate();
    harness.function.takes = None;
    harness.read(REGISTERS, 0, 4).ok();
}

#[test]
fn overdue_access_is_answered_without_the_function() {
    let mut harness = Harness::ready();
    harness.server.set_access_deadline(std::time::Duration::from_millis(1));
    harness.function.takes = Some(0);
    harness.send(REGION_READ, 0, &access(REGISTERS, 0x20, 4), &[]);
    harness.send(REGION_WRITE, 0, &[&access(REGISTERS, 0, 4)[..], &[1; 4]].concat(), &[]);
    harness.send(WRITE_MULTI, 0, &[u64s(&[1]), write_one(REGISTERS, 8, &[7; 4])].concat(), &[]);
    let mut replies = Vec::new();
    eventually(|| {
        harness.turns();
        replies.extend(harness.client.receive());
        replies.len() == 3
    });
    assert_eq!(replies.remove(0).ok(), [access(REGISTERS, 0x20, 4), vec![0xff; 4]].concat());
    assert_eq!(replies.remove(0).ok(), access(REGISTERS, 0, 4));
    assert_eq!(replies.remove(0).ok(), u64s(&[1]));
    assert_eq!((harness.take_events(), harness.function.expired), (vec![], 3));
    assert_eq!((harness.server.counters().expired_accesses, harness.server.is_held()), (3, false));
    // Once the function accepts accesses again, they work as before.
    harness.function.takes = None;
    harness.read(REGISTERS, 0x20, 4).ok();
    assert_eq!(harness.server.counters().expired_accesses, 3);
}

#[test]
fn overdue_access_waits_while_function_drops_work() {
    let mut harness = Harness::ready();
    harness.server.set_access_deadline(std::time::Duration::from_millis(1));
    (harness.function.takes, harness.function.gives_up) = (Some(0), 3);
    harness.send(REGION_READ, 0, &access(REGISTERS, 0x20, 4), &[]);
    let mut replies = Vec::new();
    eventually(|| {
        harness.turns();
        replies.extend(harness.client.receive());
        !replies.is_empty()
    });
    assert_eq!(replies.remove(0).ok(), [access(REGISTERS, 0x20, 4), vec![0x20, 0, 0, 0]].concat());
    assert_eq!((harness.function.expired, harness.server.counters().expired_accesses), (3, 0));
}
