//! Memory that a process takes away, and puts elsewhere, while messages come for it: what is at an address when a message is executed is
//! what it is about, and no page that was there before is reached.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hamlyn::Pages;
use hamlyn::dart::Operation;
use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::trap::DART_TRAP_NO_MEMORY;
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::uapi::HamlynQuery;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use serde_json::json;
use zerocopy::IntoBytes;

use crate::common::{Outcome, fill_pattern, find_difference, print};

const PAGE: usize = 4096;
/// Bytes of the memory that comes and goes.
const LENGTH: usize = 8 * PAGE;
/// In the sender's memory: what it sends, and its questions and their answers behind.
const QUESTION: usize = LENGTH;
const ANSWER: usize = LENGTH + 64;
const ROUNDS: u64 = 40;
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection from this process to itself, and what it sends from.
struct Way {
    page: Mapping,
    state: Mapping,
    memory: Mapping,
}

pub(crate) fn run(path: &Path) -> Outcome {
    let (unmapped, found_again) = unmap(path)?;
    let moved = move_under_traffic(path)?;
    print(&json!({ "unmapped": unmapped, "found_again": found_again, "moved": moved }))
}

fn open(device: &Device, memory: &Mapping, host: u32) -> Outcome<DartConnection> {
    let length = memory.length() as u64;
    let mut endpoint = DartEndpoint { address: memory.address(), length, ..DartEndpoint::default() };
    device.card_call::<DART_IOC_ENDPOINT_OPEN, _>(&mut endpoint, &[memory])?;
    let mut bank = DartBank { registers: 1, ..DartBank::default() };
    device.card_call::<DART_IOC_BANK_OPEN, _>(&mut bank, &[])?;
    let mut connection = DartConnection {
        endpoint: endpoint.endpoint,
        host,
        bank: bank.bank,
        registers: 1,
        events: DART_NO_QUEUE,
        exceptions: DART_NO_QUEUE,
        flags: DART_CONNECTION_READ | DART_CONNECTION_WRITE,
        ..DartConnection::default()
    };
    device.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut connection, &[])?;
    Ok(connection)
}

impl Way {
    /// To an endpoint over `target`.
    fn open(device: &Device, target: &Mapping) -> Outcome<Self> {
        let mut query = HamlynQuery::default();
        device.query(&mut query)?;
        let memory = Mapping::anonymous(LENGTH + PAGE)?;
        let ends = [open(device, &memory, query.host)?, open(device, target, query.host)?];
        for (here, there) in [(0, 1), (1, 0)] {
            let (connection, peer) = (ends[here].connection, ends[there].connection);
            let mut peer = DartPeer { key: ends[there].key, connection, peer };
            device.card_call::<DART_IOC_CONNECT, _>(&mut peer, &[])?;
        }
        let page = device.map(ends[0].page_offset, PAGE, Access::ReadWrite)?;
        let state = device.map(ends[0].state_offset, PAGE, Access::Read)?;
        Ok(Self { page, state, memory })
    }

    fn send(&self, operation: &Operation, offset: usize, length: usize) {
        let control = operation.control();
        self.page.store_u64(DART_SEND_CONTROL as usize, control.opcode.into());
        self.page.store_u64(DART_SEND_OPERAND as usize, control.operand);
        self.page.store_u64(DART_SEND_OFFSET as usize, offset as u64);
        self.page.store_u32_release(DART_SEND_LENGTH as usize, length as u32);
    }

    /// Returns when all that was sent has been executed.
    fn settle(&self, round: u64) -> Outcome {
        let answer = Operation::write(ANSWER as u64).control();
        self.memory.store_u64(ANSWER, u64::MAX);
        self.memory.write(QUESTION, answer.as_bytes());
        self.memory.write(QUESTION + 16, &32_u32.to_le_bytes());
        self.send(&Operation::answer(0), QUESTION, 20);
        let begun = Instant::now();
        while self.memory.load_u64(ANSWER) == u64::MAX {
            if begun.elapsed() > PATIENCE {
                return Err(format!("no answer in round {round}").into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sends a pattern to all of the target, and waits until it has been executed.
    fn put(&self, seed: u64) -> Outcome {
        let mut bytes = vec![0; LENGTH];
        fill_pattern(seed, 0, &mut bytes);
        self.memory.write(0, &bytes);
        self.send(&Operation::write_multiple(0), 0, LENGTH);
        self.settle(seed)
    }

    fn traps(&self) -> u32 {
        self.state.load_u32_acquire(DART_STATE_TRAPS as usize)
    }
}

fn check(target: &Mapping, seed: u64, what: &str) -> Outcome {
    let mut bytes = vec![0; LENGTH];
    target.read(0, &mut bytes);
    match find_difference(seed, 0, &bytes) {
        None => Ok(()),
        Some(at) => Err(format!("{what}: byte {at} is not that of pattern {seed}").into()),
    }
}

/// Memory that is unmapped, and other memory at its address. How often it was unmapped, and found again.
fn unmap(path: &Path) -> Outcome<(u64, u64)> {
    let device = Device::open(path)?;
    let mut target = Mapping::anonymous(LENGTH)?;
    let at = target.address();
    let way = Way::open(&device, &target)?;
    let (mut unmapped, mut found_again) = (0, 0);
    for round in 0..ROUNDS {
        way.put(round)?;
        check(&target, round, "before it is unmapped")?;
        drop(target);
        let traps = way.traps();
        way.put(round + 100)?;
        let trap = way.state.load_u32(DART_STATE_TRAP as usize);
        if (way.traps(), trap) != (traps + 1, DART_TRAP_NO_MEMORY) {
            return Err(format!("round {round}: {} traps, the last {trap}", way.traps()).into());
        }
        unmapped += 1;
        target = Mapping::anonymous(LENGTH)?;
        if target.address() != at {
            break;
        }
        found_again += 1;
    }
    Ok((unmapped, found_again))
}

/// Memory that is moved out of the way of a file's pages, and back, while messages come. How often.
fn move_under_traffic(path: &Path) -> Outcome<u64> {
    let device = Device::open(path)?;
    let mut target = Mapping::over(Pages::new(LENGTH));
    let way = Way::open(&device, &target)?;
    for round in 0..ROUNDS {
        let file = memfd_create("moved", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, LENGTH as u64)?;
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| storm(&way, &done));
            let shared = target.share(&file);
            done.store(true, Ordering::Release);
            shared
        })?;
        way.put(round)?;
        check(&target, round, "in a file's pages")?;
        let other = Mapping::of_file(&file, 0, LENGTH, Access::Read)?;
        check(&other, round, "in the file")?;
        // Taken back, its bytes are in private memory once more, at the same addresses.
        let owner = target.take_back::<Pages>().map_err(|_| "the memory is not given back")?;
        target = Mapping::over(owner);
        way.put(round + 100)?;
        check(&target, round + 100, "in private memory")?;
        check(&other, round, "in the file, which is out of reach")?;
    }
    if way.traps() == 0 { Ok(ROUNDS) } else { Err(format!("{} traps", way.traps()).into()) }
}

/// Writes all over the target, as long as there is room for that.
fn storm(way: &Way, done: &AtomicBool) {
    let mut sent = way.state.load_u32_acquire(DART_STATE_LEFT as usize);
    while !done.load(Ordering::Acquire) {
        if sent.wrapping_sub(way.state.load_u32_acquire(DART_STATE_LEFT as usize)) < DART_MAX_SENDS / 2 {
            let place = (sent as usize % (LENGTH / 32)) * 32;
            way.send(&Operation::write(place as u64), 0, 32);
            sent = sent.wrapping_add(1);
        }
    }
}
