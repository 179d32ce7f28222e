//! Credits: how much may be in flight, and what is lost.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::registers::CLAN_REG_JOIN;
use hamlyn_card::card::Card;
use hamlyn_card_clan::Options;

use crate::support::*;

const WRITE: u8 = 1;
const DATA: u8 = 3;
const REFUSED: u8 = 4;
const CREDIT: u8 = 5;
const PROBE: u8 = 6;

fn kinds(sent: &[(u16, Vec<u8>)], kind: u8) -> usize {
    sent.iter().filter(|(_, packet)| packet[0] == kind).count()
}

#[test]
fn words_in_flight_never_exceed_credits() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    for _ in 0..200 {
        one.store(WINDOW, 8, 1);
    }
    let sent = one.sent();
    assert_eq!((kinds(&sent, WRITE), kinds(&sent, PROBE)), (64, 1));
    assert_eq!(one.counter("credit_waits"), 1);
    for (_, packet) in &sent {
        other.arrive(0, packet);
    }
    let granted = other.sent();
    assert_eq!(kinds(&granted, CREDIT), 1);
    for (_, packet) in &granted {
        one.arrive(1, packet);
    }
    assert_eq!(kinds(&one.sent(), WRITE), 64);
}

#[test]
fn steady_traffic_never_waits_for_credits() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    for word in 0..5000_u64 {
        one.store(WINDOW + word % 512 * 8, 8, word);
        if word % 20 == 0 {
            exchange(&mut one, &mut other);
        }
    }
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("bytes_deposited"), one.counter("credit_waits")), (40_000, 0));
}

#[test]
fn loss_is_reported_and_credits_are_restored() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    for round in 1..20 {
        for _ in 0..50 {
            one.store(WINDOW, 8, 1);
        }
        let mut sent = one.sent();
        sent.remove(3);
        for (_, packet) in &sent {
            other.arrive(0, packet);
        }
        exchange(&mut one, &mut other);
        one.wait(50);
        exchange(&mut one, &mut other);
        assert_eq!(one.faults(endpoint), (round, CLAN_FAULT_LOST));
    }
}

#[test]
fn silent_host_is_reported() {
    let (mut one, _, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 1);
    assert_eq!(kinds(&one.sent(), WRITE), 1);
    one.wait(50);
    assert_eq!(kinds(&one.sent(), PROBE), 1);
    one.wait(99);
    assert_eq!(one.faults(endpoint).0, 0);
    one.wait(1);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_TIMEOUT));
    one.wait(1000);
    assert_eq!((one.sent().len(), one.faults(endpoint).0), (0, 1), "and then it is quiet");
}

#[test]
fn restarted_receiver_accepts_words() {
    let (mut one, mut other, aperture, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    let mut faults = 0;
    for word in 0..1000_u64 {
        one.store(WINDOW, 8, word);
        if word % 30 == 0 {
            exchange(&mut one, &mut other);
        }
        if word == 500 {
            exchange(&mut one, &mut other);
            other = Host::new(1);
            assert_eq!(other.aperture(3, PAGE, CLAN_APERTURE_WRITE), aperture);
            faults = one.faults(endpoint).0;
        }
    }
    exchange(&mut one, &mut other);
    one.wait(50);
    exchange(&mut one, &mut other);
    assert_eq!((other.word(aperture), other.counter("over_credit")), (999, 0));
    assert!(one.faults(endpoint).0 > faults, "what went to the earlier one is lost");
    let before = one.faults(endpoint).0;
    for word in 0..1000_u64 {
        one.store(WINDOW, 8, word);
        exchange(&mut one, &mut other);
    }
    one.wait(50);
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(endpoint).0, before);
}

/// A probe that was lost with the earlier card has no host given up, and an endpoint that has sent
/// nothing to that card has lost nothing.
#[test]
fn card_that_begins_anew_loses_only_earlier_words() {
    let (mut one, _, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 1);
    assert_eq!(kinds(&one.sent(), WRITE), 1);
    one.wait(50);
    assert_eq!(kinds(&one.sent(), PROBE), 1);
    let (mut other, greeting) = Host::begun(1, OPTIONS);
    one.arrive(1, &greeting);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_LOST));
    let later = one.plain_endpoint(9);
    one.window(32, (1, 3), PAGE, 9);
    let aperture = other.aperture(3, PAGE, CLAN_APERTURE_WRITE);
    for word in 1..=20 {
        one.store(32 * PAGE, 8, word);
        exchange(&mut one, &mut other);
        one.wait(50);
        exchange(&mut one, &mut other);
    }
    assert_eq!((other.word(aperture), other.counter("over_credit")), (20, 0));
    assert_eq!((one.faults(later).0, one.faults(endpoint).0), (0, 1));
}

#[test]
fn host_that_exceeds_its_credits_is_refused() {
    let (mut one, mut other, aperture, _) = pair(CLAN_APERTURE_WRITE);
    one.store(WINDOW, 8, 1);
    let packet = one.sent().remove(0).1;
    // The other host sends nothing, so it has granted no further credits.
    for _ in 0..100 {
        other.arrive(0, &packet);
    }
    other.rest();
    assert_eq!((other.counter("over_credit"), other.word(aperture)), (36, 1));
}

/// Sends a store and delivers its packets.
fn hand_over(one: &mut Host, other: &mut Host) {
    one.store(WINDOW, 8, 1);
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
}

#[test]
fn refusal_outlasts_a_host_that_takes_nothing() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    hand_over(&mut one, &mut other);
    other.wire.stopped = vec![0];
    assert_eq!(other.sent(), []);
    other.wait(100);
    other.wire.stopped.clear();
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_REFUSED));
    one.wait(50);
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(endpoint).0, 1, "and once");
}

/// Returns a packet with other bytes at `at`, and a correct checksum.
fn forged(packet: &[u8], at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[at..at + bytes.len()].copy_from_slice(bytes);
    packet[20..24].fill(0);
    let checksum = crc32fast::hash(&packet);
    packet[20..24].copy_from_slice(&checksum.to_le_bytes());
    packet
}

/// Another host knows the tags of endpoints, and tries to make a host believe that its peer refuses
/// its writes.
#[test]
fn only_a_written_host_can_refuse() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    hand_over(&mut one, &mut other);
    let refusal = other.sent().into_iter().find(|(_, packet)| packet[0] == REFUSED).unwrap().1;
    one.arrive(2, &refusal);
    assert_eq!((one.faults(endpoint).0, one.counter("discarded")), (0, 1));
    one.arrive(1, &refusal);
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_REFUSED));
    // A closed endpoint gets no refusals either.
    for (opcode, index) in [(CLAN_COMMAND_CLOSE_WINDOW, 5), (CLAN_COMMAND_CLOSE_ENDPOINT, 2)] {
        one.run(opcode, index, &[0_u8; 0]).unwrap();
    }
    one.arrive(1, &refusal);
    assert_eq!(one.counter("discarded"), 2);
}

/// Credits of a hostile receiver: for another count, from a host that was not written to, of more
/// than a window. None of them lets more be sent than one window beyond what was sent. None delays
/// packets for others.
#[test]
fn impossible_credits_are_ignored() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    one.window(6, (2, 3), PAGE, 2);
    hand_over(&mut one, &mut other);
    one.wait(50);
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    let credit = other.sent().into_iter().find(|(_, packet)| packet[0] == CREDIT).unwrap().1;
    let epoch = u16::from_le_bytes([credit[2], credit[3]]);
    for _ in 0..100 {
        one.store(WINDOW, 8, 1);
        one.store(6 * PAGE, 8, 1);
    }
    let sent = one.sent();
    let writes = |sent: &[(u16, Vec<u8>)], host| {
        sent.iter().filter(|(to, packet)| *to == host && packet[0] == WRITE).count()
    };
    assert_eq!((writes(&sent, 1), writes(&sent, 2)), (63, 64), "of 64");
    // 64 were sent, so 129 is one too many.
    for (source, epoch, count) in
        [(1, epoch, 129), (1, epoch, u64::MAX), (1, epoch + 7, 128), (1, epoch, 0), (3, epoch, 128)]
    {
        let count = forged(&credit, 24, &count.to_le_bytes());
        one.arrive(source, &forged(&count, 2, &epoch.to_le_bytes()));
        assert_eq!(writes(&one.sent(), 1), 0, "{source} {epoch}");
    }
    one.arrive(1, &forged(&credit, 24, &70_u64.to_le_bytes()));
    assert_eq!(writes(&one.sent(), 1), 6, "as many as the credit allows");
}

#[test]
fn refusals_of_one_endpoint_concern_no_other() {
    let options = Options { credits: 4096, join: 0, ..OPTIONS };
    let (mut one, mut other) = (Host::with_options(0, options), Host::with_options(1, options));
    let [loud, quiet] = [2, 3].map(|endpoint| one.endpoint(endpoint, CLAN_NO_EVENTS));
    other.aperture(4, PAGE, CLAN_APERTURE_WRITE);
    one.window(5, (1, 3), PAGE, 2);
    one.window(6, (1, 4), PAGE, 3);
    one.store(6 * PAGE, 8, 1);
    (0..2000).for_each(|_| one.store(WINDOW, 8, 1));
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    exchange(&mut one, &mut other);
    one.wait(50);
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(loud), (1, CLAN_FAULT_REFUSED));
    assert_eq!(one.faults(quiet).0, 0);
}

#[test]
fn loss_is_reported_to_earlier_writers() {
    let (mut one, mut other, _, early) = pair(CLAN_APERTURE_WRITE);
    let late = one.endpoint(3, CLAN_NO_EVENTS);
    let done = one.endpoint(4, CLAN_NO_EVENTS);
    one.window(6, (1, 3), PAGE, 3);
    one.window(7, (1, 3), PAGE, 4);
    one.store(7 * PAGE, 8, 1);
    exchange(&mut one, &mut other);
    one.wait(50);
    exchange(&mut one, &mut other);
    // Lost in flight.
    one.store(WINDOW, 8, 1);
    one.sent();
    one.wait(50);
    let probe = one.sent();
    one.store(6 * PAGE, 8, 1);
    for (_, packet) in probe.iter().chain(&one.sent()) {
        other.arrive(0, packet);
    }
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(early), (1, CLAN_FAULT_LOST));
    assert_eq!((one.faults(late).0, one.faults(done).0), (0, 0));
}

/// The receiver answers each probe and reports that everything has arrived, but grants nothing.
#[test]
fn receiver_that_never_grants_is_given_up() {
    let (mut one, mut other, aperture, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    let other_endpoint = one.endpoint(3, CLAN_NO_EVENTS);
    one.window(6, (2, 3), PAGE, 2);
    one.window(7, (1, 3), PAGE, 3);
    one.aperture(1, PAGE, 0);
    one.request(3, other_endpoint, 0, ClanRequest { host: 2, ..write_request(0, 0, 8) });
    (0..200).for_each(|_| one.store(6 * PAGE, 8, 1));
    let (mut probes, mut given_up) = (0, None);
    for millisecond in 0..400 {
        for (to, packet) in one.sent() {
            if (to, packet[0]) == (2, PROBE) {
                probes += 1;
                let count = &packet[24..32];
                let mut answer = forged(&packet, 0, &[CREDIT]);
                answer = forged(&answer, 24, &64_u64.to_le_bytes());
                answer.extend_from_slice(count);
                answer.extend_from_slice(&[0; 8]);
                one.arrive(2, &forged(&answer, 0, &[CREDIT]));
            }
        }
        if given_up.is_none() && one.faults(endpoint).0 > 0 {
            given_up = Some(millisecond);
        }
        one.wait(1);
    }
    assert!(given_up.is_some_and(|at| at <= 101), "{given_up:?}");
    assert!(probes < 20, "{probes} probes");
    // Other hosts are not affected.
    one.store(7 * PAGE, 8, 5);
    exchange(&mut one, &mut other);
    assert_eq!(other.word(aperture), 5);
}

#[test]
fn silent_host_still_gets_its_answers() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_READ);
    // The other host has sent something, and has received nothing for as long as it waits.
    let (silent, _) = (other.endpoint(1, CLAN_NO_EVENTS), other.window(1, (0, 9), PAGE, 1));
    other.store(PAGE, 8, 1);
    other.sent();
    other.wait(50);
    other.sent();
    one.load(WINDOW, 8);
    hand_over(&mut one, &mut other);
    other.wait(100);
    assert_eq!(other.faults(silent), (1, CLAN_FAULT_TIMEOUT), "it is given up");
    let said = other.sent();
    assert_eq!((kinds(&said, DATA), kinds(&said, REFUSED)), (1, 1));
}

#[test]
fn fault_of_a_group_names_member_and_group() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    other.joins_group(7, 3);
    announce(&mut one, &mut other);
    one.window(6, (CLAN_GROUP_HOST + 3, 0), PAGE, 2);
    one.store(6 * PAGE, 8, 1);
    one.with(|card, ports, _| card.link_changed(ports, None));
    assert_eq!(one.faults(endpoint), (1, CLAN_FAULT_LOST));
    let at = |place: u32| one.word(endpoint + u64::from(place));
    assert_eq!((at(CLAN_STATE_FAULT_HOST), at(CLAN_STATE_FAULT_APERTURE)), (1, 3));
}

#[test]
fn many_refusals_do_not_delay_credits() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_READ);
    one.write_register(CLAN_REG_JOIN, 4, 0);
    for _ in 0..70 {
        one.store(WINDOW, 8, 1);
    }
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    let said = other.sent();
    assert_eq!((kinds(&said, REFUSED), kinds(&said, CREDIT)), (1, 1));
    assert!(said[..2].iter().any(|(_, packet)| packet[0] == CREDIT), "in turn with the refusals");
}

/// The server's reply to a client that has died is refused, but by then the endpoint serves another
/// connection.
#[test]
fn late_fault_is_not_reported_to_next_use() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    let used_as = |one: &Host| one.word(endpoint + u64::from(CLAN_STATE_FAULT_USE));
    hand_over(&mut one, &mut other);
    one.tell(2, CLAN_ENDPOINT_USE, 4, 7);
    exchange(&mut one, &mut other);
    assert_eq!(one.faults(endpoint).0, 0);
    hand_over(&mut one, &mut other);
    exchange(&mut one, &mut other);
    assert_eq!((one.faults(endpoint), used_as(&one)), ((1, CLAN_FAULT_REFUSED), 7));
}

/// Otherwise each use would leave its tag behind for as long as the link lasts.
#[test]
fn waiting_store_of_earlier_use_has_no_writer() {
    let (mut one, mut other, ..) = pair(CLAN_APERTURE_READ);
    one.store(WINDOW, 8, 1);
    one.tell(2, CLAN_ENDPOINT_USE, 4, 1);
    exchange(&mut one, &mut other);
    assert_eq!((other.counter("refused_access"), one.counter("discarded")), (1, 1));
}

#[test]
fn new_use_ends_the_request_under_way() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_WRITE);
    one.aperture(1, PAGE, 0);
    one.wire.stopped = vec![1];
    one.request(2, endpoint, 0, write_request(0, 0, 8));
    one.sent();
    one.tell(2, CLAN_ENDPOINT_USE, 4, 1);
    assert_eq!((one.done(endpoint), one.result(endpoint, 0)), (1, CLAN_DMA_TIMEOUT));
    one.wire.stopped.clear();
    one.request(2, endpoint, 1, write_request(0, 0, 8));
    exchange(&mut one, &mut other);
    assert_eq!(one.result(endpoint, 1), CLAN_DMA_DONE);
}

#[test]
fn words_of_a_fault_are_between_two_counts() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    for n in 1..=3 {
        hand_over(&mut one, &mut other);
        exchange(&mut one, &mut other);
        let begun = one.word(endpoint + u64::from(CLAN_STATE_FAULTS_BEGUN));
        assert_eq!((begun, one.faults(endpoint).0), (n, n));
    }
}

/// Opens an endpoint whose faults are reported to another, as the driver does for a process.
/// Returns the address of its memory.
fn drivers_endpoint(one: &mut Host) -> u64 {
    let (memory, own) = one.area(u64::from(CLAN_STATE_SIZE + REQUESTS * CLAN_REQUEST_SIZE), 0);
    let body = ClanOpenEndpoint {
        memory,
        owner: OWNER,
        requests: REQUESTS,
        events: CLAN_NO_EVENTS,
        faults_to: 2,
        ..Default::default()
    };
    let foreign = ClanOpenEndpoint { owner: OWNER + 1, ..body };
    assert!(one.run(CLAN_COMMAND_OPEN_ENDPOINT, 3, &foreign).is_err());
    one.run(CLAN_COMMAND_OPEN_ENDPOINT, 3, &body).unwrap();
    one.aperture(1, PAGE, 0);
    own
}

#[test]
fn fault_can_be_reported_to_another_endpoint() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    let own = drivers_endpoint(&mut one);
    hand_over(&mut one, &mut other);
    exchange(&mut one, &mut other);
    one.request(3, own, 0, write_request(0, 0, 8));
    exchange(&mut one, &mut other);
    assert_eq!((one.faults(endpoint).0, one.faults(own).0), (2, 0));
}

#[test]
fn late_fault_of_drivers_endpoint_is_not_reported() {
    let (mut one, mut other, _, endpoint) = pair(CLAN_APERTURE_READ);
    let own = drivers_endpoint(&mut one);
    one.request(3, own, 0, write_request(0, 0, 8));
    for (_, packet) in one.sent() {
        other.arrive(0, &packet);
    }
    assert_eq!(other.counter("refused_access"), 1);
    one.tell(2, CLAN_ENDPOINT_USE, 4, 7);
    exchange(&mut one, &mut other);
    assert_eq!((one.faults(endpoint).0, one.faults(own).0), (0, 0));
    one.request(3, own, 1, write_request(0, 0, 8));
    exchange(&mut one, &mut other);
    assert_eq!((one.faults(endpoint), one.result(own, 1)), ((1, CLAN_FAULT_REFUSED), CLAN_DMA_DONE));
}
