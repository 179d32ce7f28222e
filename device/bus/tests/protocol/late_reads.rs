//! Reads that the card answers later.

use crate::harness::*;
use std::os::fd::AsFd;
use std::time::Duration;

/// Sends a read that is deferred. Returns the message's id.
fn send_read(harness: &mut Harness, offset: u64, count: u32) -> u16 {
    let id = harness.send(REGION_READ, 0, &access(REGISTERS, offset, count), &[]);
    harness.pump();
    assert!(harness.client.receive().is_none(), "it was to be answered later");
    id
}

#[test]
fn answers_may_come_in_any_order() {
    let mut harness = Harness::ready();
    let first = send_read(&mut harness, LATE, 4);
    let second = send_read(&mut harness, LATE + 8, 8);
    harness.write(REGISTERS, 0, &[0; 4]).ok();
    let tokens = harness.function.late.clone();
    harness.server.complete_read(tokens[1], &[2; 8]).unwrap();
    let reply = harness.client.receive().unwrap();
    assert_eq!(reply.id, second);
    assert_eq!(reply.ok(), [access(REGISTERS, LATE + 8, 8), vec![2; 8]].concat());
    harness.server.complete_read(tokens[0], &[1; 4]).unwrap();
    let reply = harness.client.receive().unwrap();
    assert_eq!((reply.id, reply.ok()), (first, [access(REGISTERS, LATE, 4), vec![1; 4]].concat()));
    assert!(harness.server.complete_read(tokens[0], &[1; 4]).is_err(), "once only");
}

#[test]
fn answer_of_wrong_length_is_refused() {
    let mut harness = Harness::ready();
    send_read(&mut harness, LATE, 4);
    let token = harness.function.late[0];
    assert!(harness.server.complete_read(token, &[1; 8]).is_err());
    assert!(harness.client.receive().is_none());
    harness.server.complete_read(token, &[1; 4]).unwrap();
    harness.client.receive().unwrap().ok();
}

#[test]
fn unanswered_read_gets_ones() {
    let mut harness = Harness::ready();
    harness.server.set_read_deadline(Duration::from_millis(20));
    let id = harness.send(REGION_READ, 0, &access(REGISTERS, LATE, 8), &[]);
    let reply = loop {
        // The owner waits for the server's own descriptor. The only events are the read's arrival
        // and its deadline.
        let mut wait =
            [rustix::event::PollFd::from_borrowed_fd(harness.server.as_fd(), rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut wait, None).unwrap();
        harness.pump();
        if let Some(reply) = harness.client.receive() {
            break reply;
        }
    };
    assert_eq!((reply.id, reply.ok()), (id, [access(REGISTERS, LATE, 8), vec![0xff; 8]].concat()));
    assert_eq!(harness.server.counters().expired_reads, 1);
    let token = harness.function.late[0];
    assert!(harness.server.complete_read(token, &[0; 8]).is_err());
    assert!(harness.client.receive().is_none());
    assert!(!harness.is_readable(), "no deadline is left");
}

#[test]
fn reset_answers_deferred_reads_with_ones() {
    let mut harness = Harness::ready();
    let id = send_read(&mut harness, LATE, 4);
    harness.send(DEVICE_RESET, 0, &[], &[]);
    harness.pump();
    let reply = harness.client.receive().unwrap();
    assert_eq!((reply.id, &reply.ok()[16..]), (id, &[0xff; 4][..]));
    assert_eq!(harness.client.receive().unwrap().command, DEVICE_RESET);
    let token = harness.function.late[0];
    assert!(harness.server.complete_read(token, &[0; 4]).is_err());
}

#[test]
fn answer_for_a_disconnected_client_is_refused() {
    let mut harness = Harness::ready();
    send_read(&mut harness, LATE, 4);
    let token = harness.function.late[0];
    harness.reconnect();
    harness.negotiate();
    assert!(harness.server.complete_read(token, &[1; 4]).is_err());
    assert!(harness.client.receive().is_none());
    send_read(&mut harness, LATE, 4);
    assert_ne!(harness.function.late[1], token);
}

#[test]
fn excess_deferred_reads_are_answered_at_once() {
    let mut harness = Harness::ready();
    for _ in 0..256 {
        send_read(&mut harness, LATE, 4);
    }
    assert_eq!(harness.read(REGISTERS, LATE, 4).ok()[16..], [0xff; 4]);
    assert_eq!(harness.function.late.len(), 256, "the function is not asked");
    let token = harness.function.late[0];
    harness.server.complete_read(token, &[1; 4]).unwrap();
    harness.client.receive().unwrap().ok();
    send_read(&mut harness, LATE, 4);
}
