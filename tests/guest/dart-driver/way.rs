//! A connection from a process to itself, by the driver's own calls.

use std::time::{Duration, Instant};

use hamlyn::dart::Operation;
use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::uapi::UlnQuery;
use hamlyn_sys::{Access, Device, Mapping};
use zerocopy::IntoBytes;

use crate::common::{Outcome, fill_pattern, find_difference};

pub(crate) const PAGE: usize = 4096;
/// Bytes of the memory that is unmapped and mapped again.
pub(crate) const LENGTH: usize = 8 * PAGE;
/// Offsets in the sender's memory of its questions and their answers, which lie after the data to
/// send.
const QUESTION: usize = LENGTH;
const ANSWER: usize = LENGTH + 64;
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two polls for an answer.
const MOMENT: Duration = Duration::from_micros(20);

/// The connection, and the memory it sends from.
pub(crate) struct Way {
    /// The numbers of both its ends.
    pub(crate) ends: [u32; 2],
    page: Mapping,
    pub(crate) state: Mapping,
    memory: Mapping,
}

/// Opens an endpoint over this memory.
pub(crate) fn open_endpoint(device: &Device, memory: &Mapping) -> Outcome<u32> {
    let length = memory.length() as u64;
    let mut endpoint = DartEndpoint { address: memory.address(), length, ..DartEndpoint::default() };
    device.card_call::<DART_IOC_ENDPOINT_OPEN, _>(&mut endpoint, &[memory])?;
    Ok(endpoint.endpoint)
}

fn open(device: &Device, endpoint: u32, host: u32, events: u32) -> Outcome<DartConnection> {
    let mut bank = DartBank { registers: 1, ..DartBank::default() };
    device.card_call::<DART_IOC_BANK_OPEN, _>(&mut bank, &[])?;
    let mut connection = DartConnection {
        endpoint,
        host,
        bank: bank.bank,
        registers: 1,
        events,
        exceptions: DART_NO_QUEUE,
        flags: DART_CONNECTION_READ | DART_CONNECTION_WRITE,
        ..DartConnection::default()
    };
    device.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut connection, &[])?;
    Ok(connection)
}

impl Way {
    /// Connects to this endpoint.
    pub(crate) fn open(device: &Device, target: u32) -> Outcome<Self> {
        Self::telling(device, target, DART_NO_QUEUE)
    }

    /// Connects to this endpoint, with a queue for the events of its messages.
    pub(crate) fn telling(device: &Device, target: u32, events: u32) -> Outcome<Self> {
        let mut query = UlnQuery::default();
        device.query(&mut query)?;
        let memory = Mapping::anonymous(LENGTH + PAGE)?;
        let own = open_endpoint(device, &memory)?;
        let ends = [open(device, own, query.host, DART_NO_QUEUE)?, open(device, target, query.host, events)?];
        for (here, there) in [(0, 1), (1, 0)] {
            let (connection, peer) = (ends[here].connection, ends[there].connection);
            let mut peer = DartPeer { key: ends[there].key, connection, peer };
            device.card_call::<DART_IOC_CONNECT, _>(&mut peer, &[])?;
        }
        let page = device.map(ends[0].page_offset, PAGE, Access::ReadWrite)?;
        let state = device.map(ends[0].state_offset, PAGE, Access::Read)?;
        let ends = ends.map(|end| end.connection);
        Ok(Self { ends, page, state, memory })
    }

    pub(crate) fn send(&self, operation: &Operation, offset: usize, length: usize) {
        let control = operation.control();
        self.page.store_u64(DART_SEND_CONTROL as usize, control.opcode.into());
        self.page.store_u64(DART_SEND_OPERAND as usize, control.operand);
        self.page.store_u64(DART_SEND_OFFSET as usize, offset as u64);
        self.page.store_u32_release(DART_SEND_LENGTH as usize, length as u32);
    }

    /// Reads a block of the target and ignores the result.
    pub(crate) fn read(&self, place: u64) {
        let answer = Operation::registers(0).control();
        self.memory.write(QUESTION + 32, answer.as_bytes());
        self.send(&Operation::read(place), QUESTION + 32, 20);
    }

    /// Fills the data to send with a pattern.
    pub(crate) fn fill(&self, seed: u64) {
        let mut bytes = vec![0; LENGTH];
        fill_pattern(seed, 0, &mut bytes);
        self.memory.write(0, &bytes);
    }

    /// Sends the data to the whole target.
    pub(crate) fn send_all(&self) {
        self.send(&Operation::write_multiple(0), 0, LENGTH);
    }

    /// Waits until everything sent has been executed.
    pub(crate) fn settle(&self, round: u64) -> Outcome {
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
            std::thread::sleep(MOMENT);
        }
        Ok(())
    }

    /// Sends a pattern to the whole target, and waits until it has been executed.
    pub(crate) fn put(&self, seed: u64) -> Outcome {
        self.fill(seed);
        self.send_all();
        self.settle(seed)
    }

    /// Returns the number of messages that have left.
    pub(crate) fn left(&self) -> u32 {
        self.state.load_u32_acquire(DART_STATE_LEFT as usize)
    }

    /// Returns the number of messages that had a trap.
    pub(crate) fn traps(&self) -> u32 {
        self.state.load_u32_acquire(DART_STATE_TRAPS as usize)
    }
}

pub(crate) fn check(target: &Mapping, seed: u64, what: &str) -> Outcome {
    let mut bytes = vec![0; LENGTH];
    target.read(0, &mut bytes);
    match find_difference(seed, 0, &bytes) {
        None => Ok(()),
        Some(at) => Err(format!("{what}: byte {at} is not that of pattern {seed}").into()),
    }
}
