//! The DMA engine.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::CLAN_REG_JOIN;
use hamlyn_card_clan::{Options, PACKET_OVERHEAD};
use hamlyn_test_host::Commands;

use crate::support::*;

const BOTH: u32 = CLAN_APERTURE_READ | CLAN_APERTURE_WRITE;

/// Returns a pair whose first host has local aperture 1 as well. Also returns the addresses of that
/// aperture's, the other host's and the endpoint's memory.
fn transfers() -> (Host, Host, u64, u64, u64) {
    let (mut one, other, remote, endpoint) = pair(BOTH);
    let local = one.aperture(1, PAGE, 0);
    (one, other, local, remote, endpoint)
}

fn pattern(length: u64) -> Vec<u8> {
    (0..length).map(|byte| (byte * 7 + byte / 251) as u8).collect()
}

#[test]
fn write_of_any_length_and_alignment_arrives() {
    let (mut one, mut other, local, remote, endpoint) = transfers();
    one.put(local, &pattern(PAGE));
    for (n, (from, to, length)) in
        (0..).zip([(0, 0, 1), (3, 17, 250), (1, 5, 1000), (0, 1000, 3000), (7, 4095, 1)])
    {
        one.request(2, endpoint, n, write_request(from, to, length));
        exchange(&mut one, &mut other);
        assert_eq!((one.done(endpoint), one.result(endpoint, n)), (n + 1, CLAN_DMA_DONE));
        assert_eq!(
            other.bytes(remote + to, length as usize),
            pattern(PAGE)[from as usize..][..length as usize]
        );
    }
    assert_eq!((one.counter("requests_done"), one.faults(endpoint).0), (5, 0));
}

#[test]
fn a_read_brings_the_bytes() {
    let (mut one, mut other, local, remote, endpoint) = transfers();
    other.put(remote, &pattern(PAGE));
    one.request(2, endpoint, 0, ClanRequest { flags: CLAN_DMA_NOTIFY, ..read_request(5, 3, 1001) });
    exchange(&mut one, &mut other);
    assert_eq!((one.done(endpoint), one.result(endpoint, 0)), (1, CLAN_DMA_DONE));
    assert_eq!(one.bytes(local + 5, 1001), pattern(PAGE)[3..1004]);
    assert_eq!((one.bytes(local, 5), one.bytes(local + 1006, 5)), (vec![0; 5], vec![0; 5]));
    assert_eq!(one.take_bits(endpoint), 1 << CLAN_BIT_DMA);
}

/// The requester's packets may be longer than the answering card's.
#[test]
fn answers_have_the_answering_cards_packet_size() {
    let (mut one, mut other) = (Host::with_options(0, Options { burst: 1024, ..OPTIONS }), Host::new(1));
    let remote = other.aperture(3, PAGE, BOTH);
    let endpoint = one.endpoint(2, CLAN_NO_EVENTS);
    let local = one.aperture(1, PAGE, 0);
    other.put(remote, &pattern(PAGE));
    one.request(2, endpoint, 0, read_request(0, 0, 1000));
    let asked = one.sent();
    assert_eq!(asked.len(), 1, "one packet asks for all of it");
    other.arrive(0, &asked[0].1);
    let answers = other.sent();
    for (_, answer) in &answers {
        assert!(answer.len() <= PACKET_OVERHEAD + OPTIONS.burst as usize, "{} bytes", answer.len());
        one.arrive(1, answer);
    }
    exchange(&mut one, &mut other);
    assert_eq!((answers.len(), one.done(endpoint), one.result(endpoint, 0)), (4, 1, CLAN_DMA_DONE));
    assert_eq!(one.bytes(local, 1000), pattern(PAGE)[..1000]);
}

#[test]
fn owner_rings_only_when_queue_was_empty() {
    let (mut one, mut other, _, _, endpoint) = transfers();
    let idle = |one: &Host| one.word(endpoint + u64::from(CLAN_STATE_IDLE));
    assert_eq!(idle(&one), 1);
    one.request(2, endpoint, 0, write_request(0, 0, 8));
    assert_eq!(idle(&one), 0);
    // Posted while the engine is at work: no ring.
    one.request(2, endpoint, 1, write_request(8, 8, 8));
    exchange(&mut one, &mut other);
    assert_eq!((one.done(endpoint), idle(&one)), (2, 1));
}

#[test]
fn invalid_request_fails_and_its_chain_is_skipped() {
    let (mut one, mut other, _, _, endpoint) = transfers();
    let good = write_request(0, 0, 8);
    let cases = [
        (ClanRequest { opcode: 3, ..good }, CLAN_DMA_BAD_REQUEST),
        (ClanRequest { flags: 4, ..good }, CLAN_DMA_BAD_REQUEST),
        (ClanRequest { length: 0, ..good }, CLAN_DMA_BAD_REQUEST),
        (ClanRequest { length: CLAN_MAX_TRANSFER + 1, ..good }, CLAN_DMA_BAD_REQUEST),
        (ClanRequest { offset: u64::MAX, ..good }, CLAN_DMA_BAD_REQUEST),
        (
            ClanRequest { host: CLAN_GROUP_HOST, aperture: 0, opcode: CLAN_DMA_READ, ..good },
            CLAN_DMA_BAD_REQUEST,
        ),
        (ClanRequest { host: 0x1_0000, ..good }, CLAN_DMA_BAD_REQUEST),
        (ClanRequest { local_aperture: 2, ..good }, CLAN_DMA_BAD_LOCAL),
        (ClanRequest { local_offset: PAGE - 7, ..good }, CLAN_DMA_BAD_LOCAL),
        (read_request(0, PAGE, 8), CLAN_DMA_REFUSED),
    ];
    let mut n = 0;
    for (request, result) in cases {
        one.request(2, endpoint, n, ClanRequest { flags: request.flags | CLAN_DMA_CHAIN, ..request });
        one.request(2, endpoint, n + 1, good);
        one.request(2, endpoint, n + 2, good);
        exchange(&mut one, &mut other);
        let results = [n, n + 1, n + 2].map(|n| one.result(endpoint, n));
        assert_eq!(results, [result, CLAN_DMA_SKIPPED, CLAN_DMA_DONE], "{request:?}");
        n += 3;
    }
    assert_eq!(one.done(endpoint), n);
}

/// Stores that wait for credits do not count as packets of the engine.
#[test]
fn request_keeps_its_place_among_waiting_stores() {
    let (mut one, mut other, local, remote, endpoint) = transfers();
    one.write_register(CLAN_REG_JOIN, 4, 0);
    one.put(local, &[0x55; 16]);
    (0..100).for_each(|_| one.store(WINDOW, 8, 1));
    let begun = one.sent();
    assert_eq!(one.counter("credit_waits"), 1);
    one.request(2, endpoint, 0, write_request(0, 0, 16));
    assert_eq!(one.sent(), []);
    one.store(WINDOW, 8, 9);
    for (_, packet) in &begun {
        other.arrive(0, packet);
    }
    exchange(&mut one, &mut other);
    assert_eq!((one.done(endpoint), one.result(endpoint, 0)), (1, CLAN_DMA_DONE));
    // The store behind the request is the last to write the first word.
    assert_eq!((other.word(remote), other.word(remote + 8)), (9, 0x5555_5555));
    assert_eq!(other.counter("bytes_deposited"), 101 * 8 + 16);
}

#[test]
fn refused_write_is_a_fault() {
    let (mut one, mut other, _, _, endpoint) = transfers();
    one.request(2, endpoint, 0, ClanRequest { key: 1, ..write_request(0, 0, 8) });
    exchange(&mut one, &mut other);
    assert_eq!((one.result(endpoint, 0), one.faults(endpoint)), (CLAN_DMA_DONE, (1, CLAN_FAULT_REFUSED)));
}

#[test]
fn memory_of_another_owner_is_not_read() {
    let (mut one, mut other, _, remote, endpoint) = transfers();
    let (area, secret) = one.area(PAGE, 0);
    let body = ClanOpenAperture { area, key: KEY, owner: OWNER + 1, flags: BOTH, ..Default::default() };
    one.try_aperture(2, &body).unwrap();
    one.put(secret, &[0x5e; 64]);
    one.request(2, endpoint, 0, ClanRequest { local_aperture: 2, ..write_request(0, 0, 64) });
    one.request(2, endpoint, 1, ClanRequest { local_aperture: 2, ..read_request(0, 0, 64) });
    exchange(&mut one, &mut other);
    assert_eq!([0, 1].map(|n| one.result(endpoint, n)), [CLAN_DMA_BAD_LOCAL; 2]);
    assert_eq!((other.word(remote), one.word(secret)), (0, 0x5e5e_5e5e));
}

#[test]
fn endpoints_with_requests_have_their_turns() {
    let (mut one, ..) = transfers();
    one.write_register(CLAN_REG_JOIN, 4, 0);
    let more: Vec<(u32, u64)> = [3, 4].map(|index| (index, one.endpoint(index, CLAN_NO_EVENTS))).into();
    for (index, memory) in &more {
        one.request(*index, *memory, 0, write_request(0, u64::from(*index) * 1024, 1024));
    }
    let places: Vec<u64> = one
        .sent()
        .iter()
        .filter(|(_, packet)| packet[0] == 1)
        .map(|(_, packet)| u64::from_le_bytes(packet[24..32].try_into().unwrap()))
        .take(2)
        .collect();
    assert_eq!(places, [3072, 4096], "a packet of each before a second of one");
}

#[test]
fn out_of_range_request_count_is_ignored() {
    let (mut one, mut other, _, _, endpoint) = transfers();
    for put in [17, u32::MAX, 0x8000_0000] {
        one.put_word(endpoint + u64::from(CLAN_STATE_PUT), put);
        one.tell(2, CLAN_ENDPOINT_GO, 4, 1);
        assert_eq!(exchange(&mut one, &mut other), 0);
    }
    assert_eq!(one.done(endpoint), 0);
    one.request(2, endpoint, 0, write_request(0, 0, 8));
    exchange(&mut one, &mut other);
    assert_eq!(one.done(endpoint), 1);
}

#[test]
fn requests_to_silent_host_time_out() {
    let (mut one, _, _, _, endpoint) = transfers();
    one.request(2, endpoint, 0, read_request(0, 0, 8));
    // More words than there are credits for.
    one.request(2, endpoint, 1, write_request(0, 0, 1024));
    for _ in 0..10 {
        one.sent();
        one.wait(50);
    }
    assert_eq!([0, 1].map(|n| one.result(endpoint, n)), [CLAN_DMA_TIMEOUT; 2]);
    assert!(one.faults(endpoint).0 > 0, "what had left may not have arrived");
}

#[test]
fn system_requests_do_not_wait_for_their_packets() {
    let (mut one, _, _, _, endpoint) = transfers();
    let (memory, system) = one.area(u64::from(CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE), 0);
    let (requests, events, flags) = (REQUESTS, CLAN_NO_EVENTS, CLAN_PRIVILEGED);
    let body = ClanOpenEndpoint { memory, owner: OWNER, requests, events, flags, ..Default::default() };
    one.run(CLAN_COMMAND_OPEN_ENDPOINT, 3, &body).unwrap();
    one.wire.stopped = vec![1];
    for (index, memory) in [(3, system), (2, endpoint)] {
        one.request(index, memory, 0, write_request(0, 0, 8));
        one.transmit();
    }
    assert_eq!((one.done(system), one.done(endpoint)), (1, 0), "such requests go to all hosts");
}

#[test]
fn closed_endpoint_has_no_requests() {
    let (mut one, mut other, _, _, endpoint) = transfers();
    one.run(CLAN_COMMAND_CLOSE_WINDOW, 5, &[0_u64]).unwrap();
    one.request(2, endpoint, 0, read_request(0, 0, 8));
    let asked = one.sent();
    one.run(CLAN_COMMAND_CLOSE_ENDPOINT, 2, &[0_u64]).unwrap();
    let again = one.endpoint(2, CLAN_NO_EVENTS);
    let before = (one.bytes(endpoint, 8192), one.bytes(again, 8192));
    for (_, packet) in asked {
        other.arrive(0, &packet);
    }
    exchange(&mut one, &mut other);
    assert!((one.bytes(endpoint, 8192), one.bytes(again, 8192)) == before);
}

#[test]
fn failed_requests_do_not_delay_other_endpoints() {
    let (mut one, _, _, _, endpoint) = transfers();
    let bad: Vec<(u32, u64)> =
        [3, 4, 5, 6, 7].map(|index| (index, one.endpoint(index, CLAN_NO_EVENTS))).into();
    for n in 0..REQUESTS {
        for (index, memory) in &bad {
            one.request(*index, *memory, n, ClanRequest::default());
        }
    }
    one.request(2, endpoint, 0, write_request(0, 0, 8));
    one.transmit();
    let ended: u32 = bad.iter().map(|(_, memory)| one.done(*memory)).sum();
    assert!(ended <= 16, "{ended} requests have ended before anything else was looked at");
    one.sent();
    assert_eq!((one.done(endpoint), one.done(bad[0].1)), (1, REQUESTS));
}
