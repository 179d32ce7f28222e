//! The stream itself: fragmented, oversized, short and unknown messages, and clients that connect
//! and disconnect.

use crate::harness::*;
use proptest::prelude::*;
use rustix::pipe::pipe;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const INFO: [u32; 4] = [16, 0, 0, 0];

#[test]
fn a_message_may_come_byte_by_byte() {
    let mut harness = Harness::ready();
    let bytes = message(5, REGION_WRITE, 36, 0, &[access(REGISTERS, 8, 4), vec![1, 2, 3, 4]].concat());
    for byte in &bytes {
        assert!(harness.client.receive().is_none());
        harness.client.send_raw(&[*byte], &[]);
        harness.pump();
    }
    assert_eq!(harness.client.receive().unwrap().ok(), access(REGISTERS, 8, 4));
    assert_eq!(harness.take_events(), [Event::Write(0, 8, vec![1, 2, 3, 4])]);
}

#[test]
fn many_messages_may_come_at_once() {
    let mut harness = Harness::ready();
    let one = |id: u16| message(id, REGION_READ, 32, 0, &access(REGISTERS, u64::from(id) * 4, 4));
    harness.client.send_raw(&(0..200).flat_map(one).collect::<Vec<_>>(), &[]);
    harness.pump();
    for id in 0..200 {
        let reply = harness.client.receive().unwrap();
        assert_eq!(reply.id, id);
        assert_eq!(u32_at(&reply.ok(), 16), u32::from(id) * 4);
    }
}

/// The server's descriptor does not signal bytes that were read ahead.
#[test]
fn message_read_ahead_is_not_delayed() {
    for posted in 60..140 {
        let mut harness = Harness::ready();
        let write = |id: u16| {
            let body = [access(REGISTERS, 8, 8), vec![7; 8]].concat();
            message(id, REGION_WRITE, 40, NO_REPLY, &body)
        };
        let read = message(posted, REGION_READ, 32, 0, &access(REGISTERS, 0, 4));
        harness.client.send_raw(&(0..posted).flat_map(write).chain(read).collect::<Vec<_>>(), &[]);
        harness.pump();
        assert_eq!(harness.client.receive().map(|reply| reply.id), Some(posted));
    }
}

#[test]
fn waiter_thread_waits_for_client_messages() {
    let mut harness = Harness::ready();
    let waiter = harness.server.waiter().unwrap();
    let (sent, (said, heard)) = (Arc::new(AtomicBool::new(false)), channel());
    let seen = sent.clone();
    let thread = std::thread::spawn(move || {
        said.send(()).unwrap();
        waiter.wait().map(|()| seen.load(Ordering::SeqCst)).unwrap()
    });
    heard.recv().unwrap();
    assert!(!harness.is_readable(), "there is nothing to hear");
    sent.store(true, Ordering::SeqCst);
    harness.send(REGION_READ, 0, &access(REGISTERS, 4, 4), &[]);
    assert!(thread.join().unwrap(), "it did not wait");
    harness.pump();
    assert!(harness.client.receive().is_some());
}

#[test]
fn truncated_and_padded_bodies_are_refused() {
    let mut harness = Harness::ready();
    let good = [
        (DMA_MAP, dma_map(3, 0, 0, 4096)),
        (DMA_UNMAP, dma_unmap(0, 0, 4096)),
        (GET_INFO, u32s(&INFO)),
        (GET_REGION_INFO, [u32s(&[32, 0, 0, 0]), u64s(&[0, 0])].concat()),
        (GET_REGION_IO_FDS, u32s(&INFO)),
        (GET_IRQ_INFO, u32s(&INFO)),
        (REGION_READ, access(REGISTERS, 0, 4)),
        (REGION_WRITE, [access(REGISTERS, 0, 4), vec![0; 4]].concat()),
        (WRITE_MULTI, [u64s(&[1]), access(REGISTERS, 0, 4), vec![0; 8]].concat()),
    ];
    for (command, body) in good {
        for size in 0..body.len() {
            assert_eq!(
                harness.call(command, &body[..size]).errno(),
                EINVAL,
                "command {command}, {size} bytes"
            );
        }
        assert_eq!(harness.call(command, &[&body[..], &[0]].concat()).errno(), EINVAL, "command {command}");
    }
    assert_eq!(harness.call(DEVICE_RESET, &[0]).errno(), EINVAL);
    for size in 0..20 {
        assert_eq!(harness.call(SET_IRQS, &vec![0; size]).errno(), EINVAL);
    }
    assert_eq!(harness.take_events(), []);
}

#[test]
fn oversized_message_is_refused_and_skipped() {
    let mut harness = Harness::ready();
    let size: u32 = 3 << 20;
    harness.client.send_raw(&message(1, REGION_WRITE, size + 16, 0, &[]), &[]);
    harness.pump();
    assert_eq!(harness.client.receive().unwrap().errno(), EMSGSIZE);
    // The body consists of valid messages, so an answer to any part of it would show.
    let body = message(2, GET_INFO, 32, 0, &u32s(&INFO)).repeat(size as usize / 32);
    for piece in body.chunks(32 << 10) {
        harness.client.send_raw(piece, &[]);
        harness.pump();
        assert!(harness.client.receive().is_none());
    }
    harness.call(GET_INFO, &u32s(&INFO)).ok();
    assert_eq!(harness.refused(), 1);
}

#[test]
fn far_too_large_message_ends_the_connection() {
    let mut harness = Harness::ready();
    harness.client.send_raw(&message(1, REGION_WRITE, (4 << 20) + 1, 0, &[0xaa; 64 << 10]), &[]);
    harness.pump();
    assert_eq!(harness.client.receive().unwrap().errno(), EMSGSIZE);
    eventually(|| harness.client.is_closed());
    harness.reconnect();
    harness.negotiate();
}

#[test]
fn message_shorter_than_header_ends_the_connection() {
    for size in [0, 1, 15] {
        let mut harness = Harness::ready();
        harness.client.send_raw(&message(1, GET_INFO, size, 0, &u32s(&INFO)), &[]);
        harness.pump();
        eventually(|| harness.client.is_closed());
        assert!(!harness.server.has_client());
        harness.reconnect();
        harness.negotiate();
    }
}

#[test]
fn unknown_commands_are_refused_with_their_bodies_read() {
    let mut harness = Harness::ready();
    for command in [0, 11, 12, 14, 16, 17, 18, 19, u16::MAX] {
        assert_eq!(harness.call(command, &[7; 300]).errno(), EOPNOTSUPP, "command {command}");
    }
    assert_eq!(harness.refused(), 9);
    harness.call(GET_INFO, &u32s(&INFO)).ok();
}

#[test]
fn replies_and_unknown_types_of_message_are_ignored() {
    let mut harness = Harness::ready();
    for flags in [REPLY, REPLY | ERROR, 2, 0xf] {
        harness.send(GET_INFO, flags, &u32s(&INFO), &[]);
    }
    harness.pump();
    assert!(harness.client.receive().is_none());
    assert_eq!(harness.refused(), 4);
    harness.call(GET_INFO, &u32s(&INFO)).ok();
}

#[test]
fn no_reply_means_no_reply() {
    let mut harness = Harness::ready();
    let write = [access(REGISTERS, 16, 4), vec![9; 4]].concat();
    harness.send(REGION_WRITE, NO_REPLY, &write, &[]);
    harness.send(REGION_WRITE, NO_REPLY, &write[..19], &[]);
    harness.send(REGION_READ, NO_REPLY, &access(REGISTERS, LATE, 4), &[]);
    harness.send(99, NO_REPLY, &[], &[]);
    harness.pump();
    assert!(harness.client.receive().is_none());
    assert_eq!(harness.function.events[0], Event::Write(0, 16, vec![9; 4]));
    let token = harness.function.late[0];
    assert!(harness.server.complete_read(token, &[0; 4]).is_err());
    harness.call(GET_INFO, &u32s(&INFO)).ok();
}

#[test]
fn unneeded_descriptors_are_closed() {
    let mut harness = Harness::ready();
    let (reader, writer) = pipe().unwrap();
    harness.call_with_fds(GET_INFO, &u32s(&INFO), &[writer.as_fd(), writer.as_fd()]).ok();
    harness.call_with_fds(DMA_MAP, &dma_map(3, 0, 0, 4096), &[writer.as_fd()]).errno();
    harness.call_with_fds(99, &[], &[writer.as_fd()]).errno();
    drop(writer);
    assert!(pipe_is_closed(&reader));
}

#[test]
fn too_many_descriptors_are_refused_and_closed() {
    let mut harness = Harness::ready();
    let (reader, writer) = pipe().unwrap();
    let fds = [writer.as_fd(); 40];
    assert_eq!(harness.call_with_fds(GET_INFO, &u32s(&INFO), &fds).errno(), EINVAL);
    harness.call(GET_INFO, &u32s(&INFO)).ok();
    drop(writer);
    assert!(pipe_is_closed(&reader));
}

#[test]
fn descriptors_belong_to_the_message_they_came_with() {
    let mut harness = Harness::ready();
    let memory = memfd(4096);
    let plain = message(1, GET_INFO, 32, 0, &u32s(&INFO));
    let map = message(2, DMA_MAP, 48, 0, &dma_map(3, 0, 0, 4096));
    harness.client.send_raw(&plain, &[]);
    harness.client.send_raw(&map, &[memory.as_fd()]);
    harness.client.send_raw(&plain, &[]);
    harness.pump();
    for _ in 0..3 {
        harness.client.receive().unwrap().ok();
    }
    harness.enable_bus_master();
    assert_eq!(harness.server.bus().dma.read_u32(0), Ok(0));
}

#[test]
fn second_client_is_refused_and_first_stays() {
    let mut harness = Harness::ready();
    let mut second = Client::connect(&harness.server);
    eventually(|| {
        harness.pump();
        second.is_closed()
    });
    assert_eq!(harness.server.counters().clients_refused, 1);
    harness.call(GET_INFO, &u32s(&INFO)).ok();
    // Each has its own time to wait, also if it comes long after the one before.
    std::thread::sleep(Duration::from_millis(1100));
    let third = Client::connect(&harness.server);
    harness.pump();
    assert_eq!(harness.server.counters().clients_refused, 1);
    harness.client = third;
    eventually(|| {
        harness.pump();
        harness.server.counters().clients == 2
    });
}

/// The kernel may close the socket of a machine that was killed after the next one has connected.
#[test]
fn second_client_waits_until_the_first_leaves() {
    let mut harness = Harness::ready();
    let second = Client::connect(&harness.server);
    harness.pump();
    assert_eq!((harness.server.counters().clients, harness.server.counters().clients_refused), (1, 0));
    harness.client = second;
    eventually(|| {
        harness.pump();
        harness.server.counters().clients == 2
    });
    harness.negotiate();
    harness.call(GET_INFO, &u32s(&INFO)).ok();
    assert_eq!(harness.server.counters().clients_refused, 0);
}

#[test]
fn client_can_disconnect_within_a_message() {
    let mut harness = Harness::ready();
    harness.client.send_raw(&message(1, REGION_WRITE, 4096, 0, &[1; 100]), &[]);
    harness.pump();
    harness.reconnect();
    harness.negotiate();
    assert_eq!(harness.server.counters().clients, 2);
    harness.call(GET_INFO, &u32s(&INFO)).ok();
}

#[test]
fn client_that_does_not_read_is_not_served() {
    let mut harness = Harness::ready();
    let (offset, size) = WINDOW_AREAS[1];
    for _ in 0..60 {
        harness.send(REGION_READ, 0, &access(WINDOW, offset, size as u32), &[]);
    }
    let served =
        |harness: &Harness| harness.server.counters().messages().map(|(_, count)| count).sum::<u64>() - 1;
    // Some replies fit into the socket. Then the server takes no more messages, without a busy loop
    // and without queueing replies.
    harness.pump();
    assert!(served(&harness) < 30, "{} replies are waiting", served(&harness));
    let mut replies = 0;
    while let Some(reply) = harness.client.receive() {
        assert_eq!(reply.ok().len() as u64, 16 + size);
        replies += 1;
        harness.pump();
    }
    assert_eq!((replies, served(&harness)), (60, 60));
}

#[test]
fn dropped_server_removes_socket_and_closes_connection() {
    let harness = Harness::ready();
    let Harness { server, mut client, .. } = harness;
    let path = server.path().to_owned();
    assert!(path.exists());
    drop(server);
    assert!(!path.exists());
    eventually(|| client.is_closed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Messages with well-formed headers and arbitrary bodies, cut anywhere: the server answers or
    /// closes the connection, and serves the next client.
    #[test]
    fn any_messages_leave_a_working_server(
        messages in proptest::collection::vec(
            (0_u16..20, any::<u32>(), proptest::collection::vec(any::<u8>(), 0..64)), 1..12),
        rest in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut harness = Harness::ready();
        for (command, flags, body) in messages {
            harness.send(command, flags, &body, &[]);
        }
        harness.client.send_raw(&rest, &[]);
        harness.pump();
        harness.reconnect();
        harness.negotiate();
        harness.call(GET_INFO, &u32s(&INFO)).ok();
    }
}
