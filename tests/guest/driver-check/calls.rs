//! Every call and mapping, with valid and invalid arguments.

use std::io;
use std::path::Path;

use hamlyn_abi::family::area::ULN_MAX_AREA;
use hamlyn_abi::hamlyn::command::{HAMLYN_MAX_WEIGHT, HAMLYN_MODE_PARANOID_ONE_SHOT, HAMLYN_SLOT_FLAGS};
use hamlyn_abi::hamlyn::request::HAMLYN_SEND_BUFFERS;
use hamlyn_abi::hamlyn::window::HAMLYN_WINDOW_WORK_QUEUE;
use hamlyn_abi::uapi::*;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zerocopy::{FromZeros, IntoBytes};

use crate::bench::{Bench, ENTRIES, NO_OBJECT, PAGE, Terminus, WINDOW, object, pinned, slot};
use crate::checks::{Checks, Spoil, spoilt};
use crate::common::Outcome;
use crate::connections::connections;
use crate::fetch::fetch;
use crate::object_files::object_files;
use crate::registrations::registrations;

pub(crate) fn calls(checks: &mut Checks, path: &Path) -> Outcome {
    let mut bench = Bench::create(path)?;
    let other = Device::open(path)?;
    checks.refused(
        "a code of another driver",
        rustix::termios::tcgetwinsize(&bench.device).map_err(Into::into),
        Errno::NOTTY,
    )?;
    card_calls(checks, &bench.device)?;
    terminus_calls(checks, &bench.device)?;
    mappings(checks, &bench, &other)?;
    queue_calls(checks, &bench, &other)?;
    object_files(checks, path)?;
    slot_calls(checks, &bench, &other)?;
    area_memory(checks, &bench)?;
    send_buffer_calls(checks, &bench)?;
    registrations(checks, &mut bench, &other)?;
    fetch(checks, &mut bench)?;
    connections(checks, &bench.device)?;
    destroyed(checks, bench, &other)?;
    drop(other);
    checks.holds("nothing is pinned at the end", pinned()? == 0)?;
    limit_on_pinned_memory(checks, path)
}

/// Checks the card's memory sizes, and the zeros after them.
fn memory_is_sound(query: &UlnQuery) -> bool {
    let HamlynSramQuery { room, free, longest, reserved } = query.of_card().unwrap_or_default();
    let sums = longest > 0 && longest <= free && free < room && room < query.sram_size;
    sums && reserved == 0 && query.card[2..] == [0; 7]
}

fn card_calls(checks: &mut Checks, device: &Device) -> Outcome {
    let mut query = UlnQuery::default();
    checks.done("query", device.query(&mut query))?;
    let sound = query.uapi_version == ULN_UAPI_VERSION
        && query.ports > query.host
        && query.reserved0 == 0
        && memory_is_sound(&query)
        && query.capabilities
            == ULN_CAPABILITY_CONNECTIONS
                | ULN_CAPABILITY_SHARES
                | HAMLYN_CAPABILITY_COMPLETIONS
                | HAMLYN_CAPABILITY_REGISTRATIONS
                | ULN_CAPABILITY_QUESTIONS
                | ULN_CAPABILITY_OBJECT_FILES;
    checks.holds(
        "query's answer is sound",
        sound && query.termini > 0 && query.slots > 0 && query.vectors > 1,
    )?;
    let ways: [Spoil<UlnQuery>; 6] = [
        ("something in the answer's place", |query| query.model = 1, Errno::INVAL),
        ("capabilities", |query| query.capabilities = 1, Errno::INVAL),
        ("ports", |query| query.ports = 1, Errno::INVAL),
        ("reserved0", |query| query.reserved0 = 1, Errno::INVAL),
        ("first reserved", |query| query.card[0] = 1, Errno::INVAL),
        ("last reserved", |query| query.card[8] = 1, Errno::INVAL),
    ];
    spoilt(checks, "query", &UlnQuery::default(), &ways, |query| device.query(query))?;
    let mut statistics = UlnStatistics::new_zeroed();
    checks.done("statistics", device.statistics(&mut statistics))?;
    checks.holds(
        "the rest of the statistics is zero",
        statistics.values[statistics.count as usize..].iter().all(|v| *v == 0),
    )?;
    checks.refused("statistics over the last answer", device.statistics(&mut statistics), Errno::INVAL)?;
    let mut statistics = UlnStatistics { reserved: 1, ..UlnStatistics::new_zeroed() };
    checks.refused("statistics, reserved", device.statistics(&mut statistics), Errno::INVAL)?;
    share_calls(checks, device)?;
    let ways: [Spoil<UlnSelfTest>; 2] = [
        ("reserved", |test| test.reserved = 1, Errno::INVAL),
        ("a result", |test| test.dma = 1, Errno::INVAL),
    ];
    spoilt(checks, "self-test", &UlnSelfTest::default(), &ways, |test| device.self_test(test))?;
    if !rustix::process::geteuid().is_root() {
        checks.refused("self-test of a user", device.self_test(&mut UlnSelfTest::default()), Errno::PERM)?;
    }
    Ok(())
}

fn share_calls(checks: &mut Checks, device: &Device) -> Outcome {
    let mut share = UlnShareQuery::default();
    checks.done("share", device.share(&mut share))?;
    checks.holds("the share is its opener's", share.user == rustix::process::getuid().as_raw())?;
    checks.holds("a terminus, a slot and a queue are held", share.held == [1, 1, 1, 0])?;
    checks.holds("more may be held", (0..4).all(|kind| share.limit[kind] > share.held[kind]))?;
    let ways: [Spoil<UlnShareQuery>; 5] = [
        ("held", |share| share.held[3] = 1, Errno::INVAL),
        ("limit", |share| share.limit[0] = 1, Errno::INVAL),
        ("user", |share| share.user = 1, Errno::INVAL),
        ("first reserved", |share| share.reserved0 = 1, Errno::INVAL),
        ("last reserved", |share| share.reserved1[2] = 1, Errno::INVAL),
    ];
    spoilt(checks, "share", &UlnShareQuery::default(), &ways, |share| device.share(share))?;
    sizes(checks, device, share.as_bytes())
}

/// Returns the code of the share call with a structure of this many bytes.
const fn share_code(size: u32) -> u32 {
    ULN_IOC_SHARE & 0xc000_ffff | size << 16
}

/// Programs older or newer than the driver pass shorter or longer structures.
fn sizes(checks: &mut Checks, device: &Device, whole: &[u8]) -> Outcome {
    const SHORT: usize = 16;
    const LONG: usize = size_of::<UlnShareQuery>() + 32;
    const SHORT_CODE: u32 = share_code(SHORT as u32);
    const LONG_CODE: u32 = share_code(LONG as u32);
    let mut memory = [0; 2 * SHORT];
    let (short, behind) = memory.split_first_chunk_mut::<SHORT>().expect("it is shorter");
    checks.done("share, shorter", device.share_sized::<SHORT_CODE, SHORT>(short))?;
    checks.holds("a shorter structure gets what it has room for", short[..] == whole[..SHORT])?;
    checks.holds("and nothing behind it", behind.iter().all(|byte| *byte == 0))?;
    short.fill(0);
    short[SHORT - 1] = 1;
    let refused = device.share_sized::<SHORT_CODE, SHORT>(short);
    checks.refused("share, shorter, its last byte", refused, Errno::INVAL)?;

    let mut long = [0; LONG];
    checks.done("share, longer", device.share_sized::<LONG_CODE, LONG>(&mut long))?;
    let (known, rest) = long.split_at(whole.len());
    checks.holds("a longer structure gets all", known == whole && rest.iter().all(|byte| *byte == 0))?;
    for byte in [whole.len(), LONG - 1] {
        let mut long = [0; LONG];
        long[byte] = 1;
        let refused = device.share_sized::<LONG_CODE, LONG>(&mut long);
        checks.refused(&format!("share, longer, byte {byte}"), refused, Errno::TOOBIG)?;
    }
    Ok(())
}

fn terminus_calls(checks: &mut Checks, device: &Device) -> Outcome {
    let ways: [Spoil<HamlynTerminusCreate>; 6] = [
        ("a number", |create| create.terminus = 1, Errno::INVAL),
        ("an offset", |create| create.status_offset = 1, Errno::INVAL),
        ("first reserved", |create| create.reserved[0] = 1, Errno::INVAL),
        ("last reserved", |create| create.reserved[3] = 1, Errno::INVAL),
        ("too large a weight", |create| create.weight = HAMLYN_MAX_WEIGHT + 1, Errno::INVAL),
        ("the largest number as weight", |create| create.weight = u32::MAX, Errno::INVAL),
    ];
    spoilt(checks, "terminus", &HamlynTerminusCreate::default(), &ways, |create| {
        device.terminus_create(create)
    })?;
    let create = |weight| {
        let mut create = HamlynTerminusCreate { weight, ..Default::default() };
        device.terminus_create(&mut create)?;
        device.terminus_destroy(&mut object(create.terminus))
    };
    for weight in [0, 1, 2, HAMLYN_MAX_WEIGHT] {
        let check = format!("terminus of weight {weight}");
        if weight <= 1 || rustix::process::geteuid().is_root() {
            checks.done(&check, create(weight))?;
        } else {
            checks.refused(&format!("{check} of a user"), create(weight), Errno::PERM)?;
        }
    }
    Ok(())
}

fn mappings(checks: &mut Checks, bench: &Bench, other: &Device) -> Outcome {
    use Access::{Read, ReadWrite, Write};
    let HamlynTerminusCreate { window_offset, doorbell_offset, status_offset, .. } = bench.terminus.create;
    let HamlynQueueCreate { offset: queue, size, .. } = bench.queue;
    let size = size as usize;
    let table = [
        ("a page of the window", window_offset, PAGE, ReadWrite, Errno::INVAL),
        ("the window from its second page", window_offset + PAGE as u64, WINDOW, ReadWrite, Errno::INVAL),
        ("window and doorbell at once", window_offset, WINDOW + PAGE, ReadWrite, Errno::INVAL),
        ("two pages from the doorbell", doorbell_offset, 2 * PAGE, Write, Errno::INVAL),
        ("two pages from the status words", status_offset, 2 * PAGE, Read, Errno::INVAL),
        ("behind the status words", status_offset + PAGE as u64, PAGE, Read, Errno::INVAL),
        ("the status words for writing", status_offset, PAGE, ReadWrite, Errno::ACCESS),
        ("a page of the queue", queue, PAGE, Read, Errno::INVAL),
        ("more than the queue", queue, size + PAGE, Read, Errno::INVAL),
        ("the queue from its second page", queue + PAGE as u64, size - PAGE, Read, Errno::INVAL),
        ("the queue for writing", queue, size, ReadWrite, Errno::ACCESS),
        ("what was never given out", 1 << 40, PAGE, Read, Errno::NXIO),
        ("the end of all offsets", i64::MAX as u64 & !(PAGE as u64 - 1), PAGE, Read, Errno::NXIO),
    ];
    for (what, offset, length, access, error) in table {
        checks.refused(&format!("map {what}"), bench.device.map(offset, length, access), error)?;
    }
    for (what, offset, length) in
        [("window", window_offset, WINDOW), ("status", status_offset, PAGE), ("queue", queue, size)]
    {
        checks.done(&format!("map the {what} once more"), bench.device.map(offset, length, Read))?;
        checks.refused(
            &format!("map another file's {what}"),
            other.map(offset, length, Read),
            Errno::NXIO,
        )?;
    }
    let many = (0..).map_while(|_| bench.device.map(window_offset, WINDOW, Read).ok());
    let many: Vec<Mapping> = many.take(100).collect();
    checks.holds("16 views of a terminus, and no more", many.len() == 14)?;
    checks.refused("the 17th", bench.device.map(doorbell_offset, PAGE, Write), Errno::MFILE)?;
    drop(many);
    checks.done("one more when they are gone", bench.device.map(window_offset, WINDOW, Read))?;
    let mut window = vec![0; WINDOW];
    bench.terminus.window.read(0, &mut window);
    checks.holds(
        "a new window is zero",
        window[HAMLYN_WINDOW_WORK_QUEUE as usize..].iter().all(|byte| *byte == 0),
    )?;
    // Offsets per file keep 32-bit programs from running out of them.
    let mut first = HamlynQueueCreate { entries: 2, ..Default::default() };
    other.queue_create(&mut first)?;
    checks.holds("offsets begin anew in each file", first.offset == 0)?;
    checks.done("destroy the other file's queue", other.queue_destroy(&mut object(first.queue)))
}

fn queue_calls(checks: &mut Checks, bench: &Bench, other: &Device) -> Outcome {
    let device = &bench.device;
    let good = HamlynQueueCreate { entries: ENTRIES, ..Default::default() };
    let ways: [Spoil<HamlynQueueCreate>; 6] = [
        ("a number", |create| create.queue = 1, Errno::INVAL),
        ("a size", |create| create.size = 1, Errno::INVAL),
        ("no entries", |create| create.entries = 0, Errno::INVAL),
        ("one entry", |create| create.entries = 1, Errno::INVAL),
        ("65,537 entries", |create| create.entries = 65_537, Errno::INVAL),
        ("reserved", |create| create.reserved = 1, Errno::INVAL),
    ];
    spoilt(checks, "queue", &good, &ways, |create| device.queue_create(create))?;
    let mut largest = HamlynQueueCreate { entries: 65_536, ..Default::default() };
    checks.done("queue of 65,536 entries", device.queue_create(&mut largest))?;
    checks.holds("its size is 2 MiB", largest.size == 2 << 20)?;
    let mapping = device.map(largest.offset, largest.size as usize, Access::Read)?;
    checks.holds("its last entry is zero", mapping.load_u64(mapping.length() - 8) == 0)?;
    let before = pinned()?;
    device.queue_destroy(&mut object(largest.queue))?;
    checks.holds("a queue that is mapped counts", pinned()? == before)?;
    drop(mapping);
    checks.holds("and no more when it is unmapped", pinned()? == before - (2 << 20))?;

    let ways: [Spoil<HamlynQueueWait>; 6] = [
        ("ready", |wait| wait.ready = 1, Errno::INVAL),
        ("reserved", |wait| wait.reserved = 1, Errno::INVAL),
        ("pass 2^30", |wait| wait.pass = 1 << 30, Errno::INVAL),
        ("cursor behind the end", |wait| wait.cursor = ENTRIES, Errno::INVAL),
        ("no such queue", |wait| wait.queue = NO_OBJECT, Errno::NOENT),
        ("time-out -2", |wait| wait.timeout_ns = -2, Errno::INVAL),
    ];
    spoilt(checks, "wait", &bench.wait(0, 0), &ways, |wait| device.queue_wait(wait))?;
    spoilt(checks, "arm", &bench.wait(0, 0), &ways, |wait| device.queue_arm(wait))?;
    checks.refused("arm, with a time-out", device.queue_arm(&mut bench.wait(0, 1)), Errno::INVAL)?;
    checks.refused("wait for another file's queue", other.queue_wait(&mut bench.wait(0, 0)), Errno::NOENT)?;
    checks.refused("arm another file's queue", other.queue_arm(&mut bench.wait(0, 0)), Errno::NOENT)?;
    checks.refused(
        "destroy a queue that a slot names",
        device.queue_destroy(&mut object(bench.queue.queue)),
        Errno::BUSY,
    )?;
    objects(
        checks,
        "queue",
        bench.queue.queue,
        |object| device.queue_destroy(object),
        |object| other.queue_destroy(object),
    )
}

/// Checks the errors common to all calls that destroy objects.
fn objects(
    checks: &mut Checks,
    kind: &str,
    index: u32,
    own: impl Fn(&mut UlnObject) -> io::Result<()>,
    others: impl Fn(&mut UlnObject) -> io::Result<()>,
) -> Outcome {
    let ways: [Spoil<UlnObject>; 3] = [
        ("reserved0", |object| object.reserved0 = 1, Errno::INVAL),
        ("reserved1", |object| object.reserved1 = 1, Errno::INVAL),
        ("no such number", |object| object.index = NO_OBJECT, Errno::NOENT),
    ];
    spoilt(checks, &format!("destroy {kind}"), &object(index), &ways, own)?;
    checks.refused(&format!("destroy another file's {kind}"), others(&mut object(index)), Errno::NOENT)
}

fn slot_calls(checks: &mut Checks, bench: &Bench, other: &Device) -> Outcome {
    let (device, area) = (&bench.device, &bench.area);
    let metadata = Mapping::anonymous(PAGE)?;
    let good = HamlynSlotCreate {
        metadata_address: metadata.address(),
        metadata_entries: 16,
        mode: HAMLYN_MODE_PARANOID_ONE_SHOT,
        area_address: area.address() + 100,
        area_length: 5000,
        queue: bench.queue.queue,
        flags: HAMLYN_SLOT_FLAGS,
        ..Default::default()
    };
    let ways: [Spoil<HamlynSlotCreate>; 13] = [
        ("a number", |slot| slot.slot = 1, Errno::INVAL),
        ("a key", |slot| slot.key = 1, Errno::INVAL),
        ("mode 3", |slot| slot.mode = 3, Errno::INVAL),
        ("unknown flag", |slot| slot.flags = HAMLYN_SLOT_FLAGS + 1, Errno::INVAL),
        ("no such registration", |slot| slot.registration = NO_OBJECT, Errno::NOENT),
        ("reserved word", |slot| slot.reserved0 = 1, Errno::INVAL),
        ("first reserved", |slot| slot.reserved[0] = 1, Errno::INVAL),
        ("last reserved", |slot| slot.reserved[3] = 1, Errno::INVAL),
        ("no such queue", |slot| slot.queue = NO_OBJECT, Errno::NOENT),
        ("no bytes", |slot| slot.area_length = 0, Errno::INVAL),
        (
            "metadata not aligned",
            |slot| (slot.metadata_address, slot.metadata_entries) = (slot.metadata_address + 64, 1),
            Errno::INVAL,
        ),
        ("metadata address without entries", |slot| slot.metadata_entries = 0, Errno::INVAL),
        ("metadata entries without address", |slot| slot.metadata_address = 0, Errno::INVAL),
    ];
    spoilt(checks, "slot", &good, &ways, |slot| device.slot_create(slot, area, Some(&metadata)))?;
    checks.refused(
        "slot for another file's queue",
        other.slot_create(&mut good.clone(), area, Some(&metadata)),
        Errno::NOENT,
    )?;
    let before = pinned()?;
    let mut slot = good;
    checks.done("slot", device.slot_create(&mut slot, area, Some(&metadata)))?;
    checks.holds("its key is not 0", slot.key != 0)?;
    checks.holds("its three pages count", pinned()? == before + 3 * PAGE)?;
    objects(
        checks,
        "slot",
        slot.slot,
        |object| device.slot_destroy(object),
        |object| other.slot_destroy(object),
    )?;
    checks.done("destroy slot", device.slot_destroy(&mut object(slot.slot)))?;
    checks.refused("destroy it again", device.slot_destroy(&mut object(slot.slot)), Errno::NOENT)?;
    checks.holds("its pages count no more", pinned()? == before)
}

/// Kinds of memory that the card cannot use. No page may stay pinned after any attempt.
fn area_memory(checks: &mut Checks, bench: &Bench) -> Outcome {
    let before = pinned()?;
    let create = |area: &Mapping| bench.device.slot_create(&mut slot(area), area, None);
    checks.refused("slot in the window", create(&bench.terminus.window), Errno::FAULT)?;
    checks.refused("slot in the queue", create(&bench.notifications), Errno::FAULT)?;
    let file = memfd_create("area", MemfdFlags::CLOEXEC)?;
    ftruncate(&file, ULN_MAX_AREA + PAGE as u64)?;
    let huge = Mapping::of_file(&file, 0, ULN_MAX_AREA as usize + PAGE, Access::Read)?;
    checks.refused("slot of more than 1 GiB", create(&huge), Errno::INVAL)?;
    let mut crooked =
        HamlynSlotCreate { area_address: huge.address() + 1, area_length: ULN_MAX_AREA, ..slot(&huge) };
    checks.refused(
        "slot of 1 GiB, not aligned",
        bench.device.slot_create(&mut crooked, &huge, None),
        Errno::INVAL,
    )?;
    let read_only = Mapping::of_file(&file, 0, PAGE, Access::Read)?;
    checks.refused("slot in read-only memory", create(&read_only), Errno::FAULT)?;
    ftruncate(&file, PAGE as u64)?;
    let half = Mapping::of_file(&file, 0, 2 * PAGE, Access::ReadWrite)?;
    checks.refused("slot half of whose memory is missing", create(&half), Errno::FAULT)?;
    checks.holds("nothing of it stays pinned", pinned()? == before)
}

fn send_buffer_calls(checks: &mut Checks, bench: &Bench) -> Outcome {
    let (device, memory) = (&bench.device, Mapping::anonymous(3 * PAGE)?);
    let (address, length) = (memory.address() + 5, 2 * PAGE as u64);
    let good = HamlynSendBuffer {
        terminus: bench.terminus.create.terminus,
        tag: 7,
        address,
        length,
        ..Default::default()
    };
    let set = |buffer: &mut HamlynSendBuffer| device.send_buffer_set(buffer, &memory);
    let ways: [Spoil<HamlynSendBuffer>; 5] = [
        ("no such registration", |buffer| buffer.registration = NO_OBJECT, Errno::NOENT),
        ("tag 8", |buffer| buffer.tag = HAMLYN_SEND_BUFFERS, Errno::INVAL),
        ("reserved", |buffer| buffer.reserved = 1, Errno::INVAL),
        ("no bytes", |buffer| buffer.length = 0, Errno::INVAL),
        ("no such terminus", |buffer| buffer.terminus = NO_OBJECT, Errno::NOENT),
    ];
    spoilt(checks, "set send buffer", &good, &ways, set)?;
    let before = pinned()?;
    checks.done("set send buffer", set(&mut good.clone()))?;
    checks.refused("set it again", set(&mut good.clone()), Errno::BUSY)?;
    checks.holds("its three pages count once", pinned()? == before + 3 * PAGE)?;
    let clear = HamlynSendBuffer { address: 0, length: 0, ..good };
    let ways: [Spoil<HamlynSendBuffer>; 7] = [
        ("a registration", |buffer| buffer.registration = 1, Errno::INVAL),
        ("tag 8", |buffer| buffer.tag = HAMLYN_SEND_BUFFERS, Errno::INVAL),
        ("address", |buffer| buffer.address = 1, Errno::INVAL),
        ("length", |buffer| buffer.length = 1, Errno::INVAL),
        ("reserved", |buffer| buffer.reserved = 1, Errno::INVAL),
        ("a tag that is not set", |buffer| buffer.tag = 6, Errno::NOENT),
        ("no such terminus", |buffer| buffer.terminus = NO_OBJECT, Errno::NOENT),
    ];
    spoilt(checks, "clear send buffer", &clear, &ways, |buffer| device.send_buffer_clear(buffer))?;
    checks.done("clear send buffer", device.send_buffer_clear(&mut clear.clone()))?;
    checks.holds("its pages count no more", pinned()? == before)
}

/// A mapping outlives its terminus, but no longer reaches the card.
fn destroyed(checks: &mut Checks, bench: Bench, other: &Device) -> Outcome {
    const MARKED: usize = HAMLYN_WINDOW_WORK_QUEUE as usize;
    let index = bench.terminus.create.terminus;
    objects(
        checks,
        "terminus",
        index,
        |object| bench.device.terminus_destroy(object),
        |object| other.terminus_destroy(object),
    )?;
    bench.terminus.window.store_u32(MARKED, 1);
    checks.done("destroy terminus", bench.device.terminus_destroy(&mut object(index)))?;
    let next = Terminus::create(other)?;
    checks.holds("its number is the next one's", next.create.terminus == index)?;
    checks.holds("the next finds its window zero", next.window.load_u32(MARKED) == 0)?;
    bench.terminus.window.store_u32(MARKED, 2);
    next.window.store_u32(MARKED, 3);
    checks.holds("the old mapping does not show it", bench.terminus.window.load_u32(MARKED) == 2)?;
    checks.holds("nor reach it", next.window.load_u32(MARKED) == 3)?;
    bench.terminus.doorbell.store_u32(0, 1);
    checks.refused(
        "map it",
        bench.device.map(bench.terminus.create.window_offset, WINDOW, Access::ReadWrite).map(drop),
        Errno::NXIO,
    )
}

fn limit_on_pinned_memory(checks: &mut Checks, path: &Path) -> Outcome {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (device, area) = (Device::open(path)?, Mapping::anonymous(64 * PAGE)?);
    let part = |pages: usize| HamlynSlotCreate { area_length: (pages * PAGE) as u64, ..slot(&area) };
    let create = |slot: &mut HamlynSlotCreate| device.slot_create(slot, &area, None);
    let limit = getrlimit(Resource::Memlock);
    setrlimit(Resource::Memlock, Rlimit { current: Some(16 * PAGE as u64), ..limit })?;
    checks.refused("17 pages of 16", create(&mut part(17)), Errno::NOMEM)?;
    let mut half = part(9);
    checks.done("9 pages of 16", create(&mut half))?;
    checks.refused("8 more", create(&mut part(8)), Errno::NOMEM)?;
    let mut queue = HamlynQueueCreate { entries: 8 * 128, ..Default::default() };
    checks.refused("a queue of 8 pages", device.queue_create(&mut queue), Errno::NOMEM)?;
    device.slot_destroy(&mut object(half.slot))?;
    checks.done("16 pages when they were given back", create(&mut part(16)))?;
    drop(device);
    checks.holds("nothing is pinned once the file is closed", pinned()? == 0)?;
    Ok(setrlimit(Resource::Memlock, limit)?)
}
