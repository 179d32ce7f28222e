//! `VERSION`: negotiated once, as the first message, and with any reasonable client.

use crate::harness::*;

const DATA: &[u8] = b"{\"capabilities\":{\"max_msg_fds\":16,\"max_data_xfer_size\":1048576,\"pgsizes\":4096,\"write_multiple\":true}}\0";

#[test]
fn version_message_of_qemu_is_accepted() {
    let mut harness = Harness::silent();
    let body = harness.call(VERSION, &version(0, 0, DATA)).ok();
    assert_eq!(body[..4], [0; 4]);
    let (0, text) = body[4..].split_last().unwrap() else { panic!("no NUL") };
    let json: serde_json::Value = serde_json::from_slice(text).unwrap();
    let capabilities = &json["capabilities"];
    assert_eq!(capabilities["max_msg_fds"], 16);
    assert_eq!(capabilities["max_data_xfer_size"], 1 << 20);
    assert_eq!(capabilities["pgsizes"], 4096);
    assert_eq!(capabilities["write_multiple"], true);
}

#[test]
fn capabilities_that_were_not_proposed_are_not_answered() {
    let mut harness = Harness::silent();
    let body = harness.call(VERSION, &version(0, 9, b"")).ok();
    assert_eq!(body[..4], [0, 0, 1, 0], "the minor version is ours, because the proposed one is higher");
    let json: serde_json::Value = serde_json::from_slice(&body[4..body.len() - 1]).unwrap();
    assert_eq!(json["capabilities"]["write_multiple"], false);
}

#[test]
fn valid_version_is_accepted_after_malformed_ones() {
    let mut harness = Harness::silent();
    assert_eq!(harness.call(VERSION, &version(1, 0, DATA)).errno(), EPROTONOSUPPORT);
    let deep = [b"[".repeat(100_000), vec![0]].concat();
    for data in [
        &b"{}"[..],
        b"\0",
        b"{\0",
        b"[1]\0",
        b"\xff\xfe\0",
        &deep,
        b"{\"capabilities\":{\"max_msg_fds\":0}}\0",
    ] {
        assert_eq!(harness.call(VERSION, &version(0, 0, data)).errno(), EINVAL, "{data:.20?}");
    }
    assert_eq!(harness.call(VERSION, &[0, 0, 0]).errno(), EINVAL);
    assert_eq!(harness.call(VERSION, &[]).errno(), EINVAL);
    assert_eq!(harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).errno(), EPROTO);
    harness.negotiate();
    harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok();
}

#[test]
fn commands_before_version_are_refused() {
    let mut harness = Harness::silent();
    let memory = memfd(4096);
    for (command, body) in [
        (DMA_MAP, dma_map(3, 0, 0, 4096)),
        (DMA_UNMAP, dma_unmap(2, 0, 0)),
        (GET_INFO, u32s(&[16, 0, 0, 0])),
        (REGION_READ, access(REGISTERS, 0, 4)),
        (REGION_WRITE, [access(REGISTERS, 0, 4), vec![0; 4]].concat()),
        (DEVICE_RESET, vec![]),
    ] {
        use std::os::fd::AsFd;
        assert_eq!(
            harness.call_with_fds(command, &body, &[memory.as_fd()]).errno(),
            EPROTO,
            "command {command}"
        );
    }
    assert_eq!(harness.take_events(), []);
    assert_eq!(harness.server.bus().dma.map_count(), 0);
}

#[test]
fn second_version_is_refused_without_effect() {
    let mut harness = Harness::ready();
    assert_eq!(harness.call(VERSION, &version(0, 0, DATA)).errno(), EPROTO);
    harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok();
}

#[test]
fn each_client_negotiates_again() {
    let mut harness = Harness::ready();
    harness.reconnect();
    assert_eq!(harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).errno(), EPROTO);
    harness.negotiate();
    harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok();
}

#[test]
fn client_without_version_is_disconnected() {
    let mut harness = Harness::ready();
    harness.server.set_version_deadline(std::time::Duration::ZERO);
    harness.client = Client::connect(&harness.server);
    // Neither silence nor another message counts as a negotiation.
    harness.client.send_raw(&message(1, GET_INFO, 32, 0, &u32s(&[16, 0, 0, 0]))[..20], &[]);
    eventually(|| {
        harness.turns();
        harness.client.is_closed()
    });
    assert!(!harness.server.has_client());
    harness.server.set_version_deadline(std::time::Duration::from_secs(60));
    harness.reconnect();
    harness.negotiate();
}

#[test]
fn client_may_be_silent_after_version() {
    let mut harness = Harness::silent();
    let deadline = std::time::Duration::from_secs(4);
    harness.server.set_version_deadline(deadline);
    harness.reconnect();
    harness.negotiate();
    std::thread::sleep(deadline + std::time::Duration::from_millis(50));
    harness.pump();
    harness.call(GET_INFO, &u32s(&[16, 0, 0, 0])).ok();
}
