//! `REGION_READ`, `REGION_WRITE`, `REGION_WRITE_MULTI`: trapped registers, mapped pages,
//! configuration space.

use crate::harness::*;

fn data(reply: Reply) -> Vec<u8> {
    reply.ok().split_off(16)
}

#[test]
fn trapped_accesses_reach_the_card() {
    let mut harness = Harness::ready();
    let reply = harness.read(REGISTERS, 0x120, 4).ok();
    assert_eq!(reply, [access(REGISTERS, 0x120, 4), vec![0x20, 1, 0, 0]].concat());
    assert_eq!(data(harness.read(REGISTERS, 0x128, 8)), 0x128_u64.to_le_bytes());
    assert_eq!(harness.write(REGISTERS, 8, &[1; 8]).ok(), access(REGISTERS, 8, 8));
    assert_eq!(data(harness.read(WINDOW, 4096, 4)), [0, 16, 0, 0], "between the mapped areas");
    let wanted = [
        Event::Read(0, 0x120, 4),
        Event::Read(0, 0x128, 8),
        Event::Write(0, 8, vec![1; 8]),
        Event::Read(2, 4096, 4),
    ];
    assert_eq!(harness.take_events(), wanted);
    let counters = harness.server.counters();
    assert_eq!((counters.trapped_reads, counters.trapped_writes, counters.refused), (3, 1, 0));
}

/// As on PCI. An error would make QEMU log a line for each access, and make Cloud Hypervisor wait
/// forever.
#[test]
fn access_of_wrong_width_reads_ones() {
    let mut harness = Harness::ready();
    let wrong = [
        (REGISTERS, 0, 1),
        (REGISTERS, 0, 2),
        (REGISTERS, 0, 3),
        (REGISTERS, 0, 16),
        (REGISTERS, 2, 4),
        (REGISTERS, 4, 8),
        (WINDOW, 4096, 8),
        (MSIX_BAR, 0, 16),
        (MSIX_BAR, 2, 4),
    ];
    for (region, offset, count) in wrong {
        let bytes = vec![0xff; count as usize];
        assert_eq!(data(harness.read(region, offset, count)), bytes, "{count} at {offset} of {region}");
        harness.write(region, offset, &vec![0; count as usize]).ok();
    }
    assert_eq!(harness.take_events(), []);
    let counters = harness.server.counters();
    assert_eq!((counters.refused, counters.trapped_reads, counters.trapped_writes), (2 * 9, 0, 0));
}

#[test]
fn refused_access_has_a_full_body() {
    let mut harness = Harness::ready();
    for (region, offset, count) in [
        (REGISTERS, 64 << 10, 4),
        (REGISTERS, (64 << 10) - 4, 8),
        (REGISTERS, u64::MAX - 3, 4),
        (REGISTERS, u64::MAX, 8),
        (REGISTERS, 0, 0),
        (WINDOW, 0, 0),
        (CONFIG, 0, 0),
        (WINDOW, (1 << 20) - 2, 4),
        (CONFIG, 4096, 1),
        (CONFIG, 4095, 2),
        (1, 0, 4),
        (6, 0, 4),
        (8, 0, 4),
        (9, 0, 4),
        (u32::MAX, 0, 4),
    ] {
        let (asked, ones) = (access(region, offset, count), vec![0xff; count as usize]);
        let refused = harness.read(region, offset, count).refused_access();
        assert_eq!(refused, (EINVAL, [&asked[..], &ones].concat()), "{count} at {offset:#x} of {region}");
        let refused = harness.write(region, offset, &vec![0; count as usize]).refused_access();
        assert_eq!(refused, (EINVAL, asked));
    }
    assert_eq!(harness.take_events(), []);
}

#[test]
fn a_count_larger_than_negotiated_is_refused() {
    let mut harness = Harness::ready();
    assert_eq!(harness.read(WINDOW, 0, (1 << 20) + 1).errno(), E2BIG);
    assert_eq!(harness.read(WINDOW, 0, u32::MAX).errno(), E2BIG);
    let lie = [access(REGISTERS, 0, 8), vec![0; 4]].concat();
    assert_eq!(harness.call(REGION_WRITE, &lie).refused_access(), (EINVAL, access(REGISTERS, 0, 8)));
    assert_eq!(harness.take_events(), []);
}

#[test]
fn mapped_pages_are_reached_by_messages_too() {
    let mut harness = Harness::ready();
    let (offset, size) = WINDOW_AREAS[1];
    let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
    harness.write(WINDOW, offset, &bytes).ok();
    assert_eq!(data(harness.read(WINDOW, offset, size as u32)), bytes);
    assert_eq!(data(harness.read(WINDOW, offset + 3, 2)), [3, 4]);
    assert_eq!(harness.take_events(), [], "the card sees its pages, not the messages");
    assert_eq!(data(harness.read(WINDOW, offset - 4, 8)), [0xff; 8], "half trapped, half mapped");
    assert_eq!(data(harness.read(WINDOW, offset + size - 2, 4)), [0xff; 4]);
}

#[test]
fn configuration_space_has_the_identity() {
    let mut harness = Harness::ready();
    let config = data(harness.read(CONFIG, 0, 4096));
    assert_eq!(config[..4], [0xf4, 0x1a, 0x5a, 0x5a]);
    assert_eq!(config[8..12], [1, 0, 0x80, 2]);
    assert_eq!(config[0x3d], 0, "no interrupt pin");
    harness.write(CONFIG, 0x18, &[0xff; 8]).ok();
    assert_eq!(data(harness.read(CONFIG, 0x18, 8)), (0xffff_ffff_fff0_000c_u64).to_le_bytes());
    harness.write(CONFIG, 0, &[0; 4096]).ok();
    assert_eq!(data(harness.read(CONFIG, 0, 4)), [0xf4, 0x1a, 0x5a, 0x5a]);
}

#[test]
fn bus_mastering_is_reported_once_per_change() {
    let mut harness = Harness::ready();
    harness.write(CONFIG, 4, &[6, 0]).ok();
    harness.write(CONFIG, 4, &[4, 0]).ok();
    harness.write(CONFIG, 4, &[0]).ok();
    assert_eq!(harness.take_events(), [Event::BusMaster(true), Event::BusMaster(false)]);
}

pub(crate) fn write_one(region: u32, offset: u64, bytes: &[u8]) -> Vec<u8> {
    let mut data = [0; 8];
    data[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
    [access(region, offset, bytes.len() as u32), data.to_vec()].concat()
}

#[test]
fn write_list_is_done_in_order() {
    let mut harness = Harness::ready();
    let writes =
        [write_one(REGISTERS, 0, &[1; 4]), write_one(REGISTERS, 8, &[2; 8]), write_one(WINDOW, 0, &[3])];
    let body = [u64s(&[3]), writes.concat()].concat();
    assert_eq!(harness.call(WRITE_MULTI, &body).ok(), u64s(&[3]));
    assert_eq!(harness.take_events(), [Event::Write(0, 0, vec![1; 4]), Event::Write(0, 8, vec![2; 8])]);
    assert_eq!(data(harness.read(WINDOW, 0, 2)), [3, 0]);
    let hundreds: Vec<u8> = (0..200).flat_map(|at| write_one(REGISTERS, at * 4, &[0; 4])).collect();
    harness.call(WRITE_MULTI, &[u64s(&[200]), hundreds].concat()).ok();
    assert_eq!(harness.take_events().len(), 200);
}

#[test]
fn write_list_ends_at_first_out_of_bounds() {
    let mut harness = Harness::ready();
    let writes = [
        write_one(REGISTERS, 0, &[1; 4]),
        write_one(REGISTERS, 1, &[2; 4]),
        write_one(REGISTERS, 8, &[3; 4]),
        write_one(REGISTERS, 64 << 10, &[4; 4]),
        write_one(REGISTERS, 16, &[5; 4]),
    ];
    assert_eq!(harness.call(WRITE_MULTI, &[u64s(&[5]), writes.concat()].concat()).errno(), EINVAL);
    // The misaligned write is dropped.
    assert_eq!(harness.take_events(), [Event::Write(0, 0, vec![1; 4]), Event::Write(0, 8, vec![3; 4])]);
}

#[test]
fn malformed_write_lists_are_refused_whole() {
    let mut harness = Harness::ready();
    let one = write_one(REGISTERS, 0, &[1; 4]);
    let nine = [one.clone(), write_one(REGISTERS, 0, &[0; 9])].concat();
    for (count, writes) in
        [(2, one.clone()), (0, one.clone()), (1 << 61, one.clone()), (u64::MAX, one), (2, nine)]
    {
        assert_eq!(harness.call(WRITE_MULTI, &[u64s(&[count]), writes].concat()).errno(), EINVAL, "{count}");
    }
    assert_eq!(harness.take_events(), []);
    assert_eq!(harness.call(WRITE_MULTI, &u64s(&[0])).ok(), u64s(&[0]));
}

/// Returns a list of writes that takes more time than a turn.
fn slow_writes(count: u64) -> Vec<u8> {
    let one = |at: u64| write_one(REGISTERS, SLOW, &at.to_le_bytes());
    [u64s(&[count]), (0..count).flat_map(one).collect()].concat()
}

#[test]
fn long_write_list_yields_and_keeps_order() {
    let mut harness = Harness::ready();
    harness.send(WRITE_MULTI, 0, &slow_writes(200), &[]);
    // The message after the list waits for it.
    harness.send(REGION_WRITE, 0, &[access(REGISTERS, 8, 8), vec![9; 8]].concat(), &[]);
    let mut turns = 0;
    while harness.is_readable() {
        let before = harness.function.events.len();
        harness.server.process(&mut harness.function).unwrap();
        let done = harness.function.events.len() - before;
        assert!(done < 50, "{done} writes in one turn");
        turns += 1;
    }
    assert!(turns > 4, "{turns} turns");
    let mut wanted: Vec<_> =
        (0..200_u64).map(|at| Event::Write(0, SLOW, at.to_le_bytes().to_vec())).collect();
    wanted.push(Event::Write(0, 8, vec![9; 8]));
    assert_eq!(harness.take_events(), wanted);
    assert_eq!(harness.client.receive().unwrap().ok(), u64s(&[200]));
    assert_eq!(harness.client.receive().unwrap().ok(), access(REGISTERS, 8, 8));
    assert!(harness.client.receive().is_none());
}

#[test]
fn many_messages_also_yield() {
    let mut harness = Harness::ready();
    let write = [access(REGISTERS, SLOW, 8), vec![7; 8]].concat();
    // The writes are larger than what is read ahead, and the resets are as small as possible.
    for _ in 0..60 {
        harness.send(REGION_WRITE, NO_REPLY, &write, &[]);
    }
    for _ in 0..60 {
        harness.send(DEVICE_RESET, NO_REPLY, &[], &[]);
    }
    harness.server.process(&mut harness.function).unwrap();
    assert!(harness.function.events.len() < 30, "{} in one turn", harness.function.events.len());
    harness.pump();
    assert_eq!(harness.take_events().len(), 120);
}

#[test]
fn client_can_disconnect_during_a_write_list() {
    let mut harness = Harness::ready();
    harness.send(WRITE_MULTI, 0, &slow_writes(200), &[]);
    harness.server.process(&mut harness.function).unwrap();
    harness.reconnect();
    harness.negotiate();
    assert_eq!(harness.server.counters().clients, 2);
}
