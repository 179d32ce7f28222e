//! Registrations: one memory, pinned and counted once, for several slots and send buffers.

use std::thread;
use std::time::Instant;

use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HAMLYN_REQUEST_DMA, HamlynGather, HamlynRequest};
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Device, Mapping};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::bench::{Bench, NO_OBJECT, PAGE, PATIENCE, object, pinned, slot};
use crate::checks::{Checks, Spoil, spoilt};
use crate::common::Outcome;

/// Pages of the memory: a list of pages has 512, so it takes three lists.
const PAGES: usize = 1100;
/// Offset of the registered bytes in the memory.
const FIRST: usize = 100;
/// First byte of the slot in the memory, and its length. The slot's own lists of pages are divided
/// at other places than the registration's.
const SLOT: usize = 480 * PAGE + 300;
const SLOT_LENGTH: usize = 600 * PAGE;
/// First byte of the send buffer in the memory.
const BUFFER: usize = 4 * PAGE - 50;
/// Bytes of each message: one packet, as in fast mode, and in two pages.
const LENGTH: usize = 2000;

pub(crate) fn registrations(checks: &mut Checks, bench: &mut Bench, other: &Device) -> Outcome {
    let memory = Mapping::anonymous(PAGES * PAGE)?;
    let device = bench.device.clone();
    let good = HamlynRegistrationCreate {
        address: memory.address() + FIRST as u64,
        length: (PAGES * PAGE - 2 * FIRST) as u64,
        ..Default::default()
    };
    let ways: [Spoil<HamlynRegistrationCreate>; 4] = [
        ("a number", |create| create.registration = 1, Errno::INVAL),
        ("reserved0", |create| create.reserved0 = 1, Errno::INVAL),
        ("reserved1", |create| create.reserved1 = 1, Errno::INVAL),
        ("no bytes", |create| create.length = 0, Errno::INVAL),
    ];
    spoilt(checks, "register", &good, &ways, |create| device.registration_create(create, &memory))?;
    let before = pinned()?;
    let mut create = good;
    checks.done("register", device.registration_create(&mut create, &memory))?;
    checks.holds("its number is not 0", create.registration != 0)?;
    checks.holds("its pages count", pinned()? == before + PAGES * PAGE)?;
    shares(checks, bench, other, &memory, create.registration)?;
    checks.holds("its pages count once", pinned()? == before + PAGES * PAGE)?;
    let registration = object(create.registration);
    let ways: [Spoil<UlnObject>; 3] = [
        ("reserved0", |object| object.reserved0 = 1, Errno::INVAL),
        ("reserved1", |object| object.reserved1 = 1, Errno::INVAL),
        ("no such number", |object| object.index = NO_OBJECT, Errno::NOENT),
    ];
    spoilt(checks, "deregister", &registration, &ways, |object| device.registration_destroy(object))?;
    checks.refused(
        "deregister another file's",
        other.registration_destroy(&mut registration.clone()),
        Errno::NOENT,
    )?;
    checks.done("deregister", device.registration_destroy(&mut registration.clone()))?;
    checks.refused("again", device.registration_destroy(&mut registration.clone()), Errno::NOENT)?;
    checks.holds("its pages count no more", pinned()? == before)
}

/// Two slots and a send buffer over one registration, and messages from the one to the others.
fn shares(
    checks: &mut Checks,
    bench: &mut Bench,
    other: &Device,
    memory: &Mapping,
    registration: u32,
) -> Outcome {
    let device = bench.device.clone();
    let part = |start: usize, length: usize| HamlynSlotCreate {
        area_address: memory.address() + start as u64,
        area_length: length as u64,
        registration,
        ..slot(memory)
    };
    let end = PAGES * PAGE - FIRST;
    for (what, start, length) in
        [("before it", FIRST - 1, 10), ("after it", end - 9, 10), ("around it", 0, PAGES * PAGE)]
    {
        let refused = device.slot_create(&mut part(start, length), memory, None);
        checks.refused(&format!("slot {what}"), refused, Errno::FAULT)?;
    }
    let refused = device.slot_create(&mut part(SLOT, 0), memory, None);
    checks.refused("slot of no bytes of it", refused, Errno::INVAL)?;
    let refused = other.slot_create(&mut part(SLOT, 10), memory, None);
    checks.refused("slot of another file's registration", refused, Errno::NOENT)?;
    let (mut near, mut far) = (part(FIRST, end - FIRST), part(SLOT, SLOT_LENGTH));
    checks.done("slot over all of it", device.slot_create(&mut near, memory, None))?;
    checks.done("slot over a part of it", device.slot_create(&mut far, memory, None))?;
    let (terminus, tag) = (bench.terminus.create.terminus, 5);
    let buffer = HamlynSendBuffer {
        terminus,
        tag,
        address: memory.address() + BUFFER as u64,
        length: LENGTH as u64,
        registration,
        reserved: 0,
    };
    checks.done("send buffer in it", device.send_buffer_set(&mut buffer.clone(), memory))?;
    for (to, start) in [(near, FIRST), (far, SLOT)] {
        // The registration's lists end at pages 512 and 1,024, the slot's at 480 + 512.
        for place in [511 * PAGE - 7, 480 * PAGE + 511 * PAGE + 5, 1023 * PAGE + 9] {
            let sent: Vec<u8> = (0..LENGTH).map(|i| (i * 7 + place / PAGE) as u8).collect();
            memory.write(BUFFER, &sent);
            gather(bench, &to, tag, place - start);
            checks.holds("the message is sent", bench.terminus.settles())?;
            checks.holds("its bytes arrive at their place", arrives(memory, place, &sent))?;
        }
    }
    let mut taken = object(registration);
    checks.refused("deregister below slots", device.registration_destroy(&mut taken), Errno::BUSY)?;
    checks.done("destroy a slot", device.slot_destroy(&mut object(near.slot)))?;
    checks.done("destroy the other", device.slot_destroy(&mut object(far.slot)))?;
    checks.refused("below a buffer", device.registration_destroy(&mut taken), Errno::BUSY)?;
    let mut clear = HamlynSendBuffer { terminus, tag, ..Default::default() };
    checks.done("clear the send buffer", device.send_buffer_clear(&mut clear))
}

/// Waits until these bytes are at a place of the memory. Returns whether they are.
fn arrives(memory: &Mapping, place: usize, sent: &[u8]) -> bool {
    let (start, mut found) = (Instant::now(), vec![0; sent.len()]);
    while found != sent && start.elapsed() < PATIENCE {
        thread::yield_now();
        memory.read(place, &mut found);
    }
    found == sent
}

/// Sends the whole send buffer to an offset of this bench's own slot, in fast mode.
fn gather(bench: &mut Bench, to: &HamlynSlotCreate, tag: u32, offset: usize) {
    let request = HamlynRequest {
        destination: bench.host,
        slot: to.slot,
        key: to.key,
        flags: HAMLYN_REQUEST_DMA,
        metadata_index: HAMLYN_FAST_MODE,
        offset: offset as u32,
        length: LENGTH as u32,
        gather_count: 1,
        ..Default::default()
    };
    let all = HamlynGather { tag, reserved: 0, offset: 0, length: LENGTH as u32 };
    bench.terminus.post(&request, all.as_bytes());
}
