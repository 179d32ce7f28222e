//! Forbidden uses of the driver's calls and of the memory shared with the card. Each attempt must
//! be refused, and valid calls must still work afterwards.

use std::io;
use std::path::Path;

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::dart::wire::DART_FIRST_CONNECTION;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, print};

const PAGE: usize = 4096;

/// Attempts that were refused, and those that were not.
#[derive(Default)]
struct Attempts {
    refused: u32,
    succeeded: Vec<String>,
}

impl Attempts {
    fn must_fail<T>(&mut self, what: &str, done: io::Result<T>, error: Errno) {
        let found = done.err().and_then(|error| error.raw_os_error());
        if found == Some(error.raw_os_error()) {
            self.refused += 1;
        } else {
            self.succeeded.push(format!("{what}: {found:?}"));
        }
    }
}

/// The objects of a process.
struct Ground {
    device: Device,
    memory: Mapping,
    endpoint: DartEndpoint,
    bank: DartBank,
    queue: DartQueue,
    connection: DartConnection,
}

pub(crate) fn run(path: &Path) -> Outcome {
    let ground = Ground::prepare(path)?;
    let other = Device::open(path)?;
    let mut attempts = Attempts::default();
    ground.open_wrongly(&mut attempts);
    ground.connect_wrongly(&mut attempts);
    ground.connect_twice(&mut attempts)?;
    ground.use_anothers(&mut attempts, &other);
    ground.map_wrongly(&mut attempts, &other);
    ground.wait_wrongly(&mut attempts);
    ground.scribble()?;
    ground.close(&mut attempts)?;
    Ground::prepare(path)?;
    print(&json!({ "refused": attempts.refused, "succeeded": attempts.succeeded }))
}

fn object(index: u32) -> UlnObject {
    UlnObject { index, ..UlnObject::default() }
}

impl Ground {
    fn prepare(path: &Path) -> Outcome<Self> {
        let device = Device::open(path)?;
        let memory = Mapping::anonymous(2 * PAGE)?;
        let mut endpoint = DartEndpoint {
            address: memory.address() + 4,
            length: PAGE as u64 + 5,
            ..DartEndpoint::default()
        };
        device.card_call::<DART_IOC_ENDPOINT_OPEN, _>(&mut endpoint, &[&memory])?;
        let mut bank = DartBank { registers: 8, entries: 4, ..DartBank::default() };
        device.card_call::<DART_IOC_BANK_OPEN, _>(&mut bank, &[])?;
        let mut queue = DartQueue { records: 16, ..DartQueue::default() };
        device.card_call::<DART_IOC_QUEUE_OPEN, _>(&mut queue, &[])?;
        let mut connection = DartConnection {
            endpoint: endpoint.endpoint,
            bank: bank.bank,
            registers: 8,
            entries: 4,
            events: queue.queue,
            exceptions: queue.queue,
            flags: DART_CONNECTION_READ | DART_CONNECTION_WRITE,
            ..DartConnection::default()
        };
        device.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut connection, &[])?;
        Ok(Self { device, memory, endpoint, bank, queue, connection })
    }

    fn fresh(&self) -> DartConnection {
        DartConnection { key: 0, connection: 0, page_offset: 0, state_offset: 0, ..self.connection }
    }

    /// Opens objects with invalid arguments.
    fn open_wrongly(&self, attempts: &mut Attempts) {
        let fresh = DartEndpoint { endpoint: 0, ..self.endpoint };
        for (what, mut argument) in [
            ("memory that is not aligned", DartEndpoint { address: fresh.address + 2, ..fresh }),
            ("no bytes", DartEndpoint { length: 0, ..fresh }),
            ("a number of its own choice", DartEndpoint { endpoint: 9, ..fresh }),
            ("a reserved word", DartEndpoint { reserved: 1, ..fresh }),
        ] {
            let done = self.device.card_call::<DART_IOC_ENDPOINT_OPEN, _>(&mut argument, &[&self.memory]);
            attempts.must_fail(what, done, Errno::INVAL);
        }
        let fresh = DartBank { registers: 1, ..DartBank::default() };
        for (what, mut argument) in [
            ("a bank of no registers", DartBank { registers: 0, ..fresh }),
            ("a bank of too many registers", DartBank { registers: DART_MAX_BANK + 1, ..fresh }),
            ("a bank of too many entries", DartBank { entries: DART_MAX_ENTRIES + 1, ..fresh }),
            ("a bank's number", DartBank { bank: 1, ..fresh }),
            ("a bank's reserved word", DartBank { reserved: 1, ..fresh }),
        ] {
            let done = self.device.card_call::<DART_IOC_BANK_OPEN, _>(&mut argument, &[]);
            attempts.must_fail(what, done, Errno::INVAL);
        }
        let fresh = DartQueue { records: 16, ..DartQueue::default() };
        for (what, mut argument) in [
            ("a queue of few records", DartQueue { records: 8, ..fresh }),
            ("a queue of many records", DartQueue { records: 2 * DART_MAX_RECORDS, ..fresh }),
            ("a queue of 17 records", DartQueue { records: 17, ..fresh }),
            ("a queue's flags", DartQueue { flags: 2, ..fresh }),
            ("a queue's number", DartQueue { queue: 1, ..fresh }),
            ("a queue's place", DartQueue { memory_offset: 4096, ..fresh }),
        ] {
            let done = self.device.card_call::<DART_IOC_QUEUE_OPEN, _>(&mut argument, &[]);
            attempts.must_fail(what, done, Errno::INVAL);
        }
        let fresh = self.fresh();
        for (what, error, mut argument) in [
            ("a key of its own choice", Errno::INVAL, DartConnection { key: 1, ..fresh }),
            ("a connection's number", Errno::INVAL, DartConnection { connection: 64, ..fresh }),
            (
                "an operating system's",
                Errno::INVAL,
                DartConnection { flags: DART_CONNECTION_SYSTEM, ..fresh },
            ),
            ("registers behind the bank", Errno::INVAL, DartConnection { first_register: 1, ..fresh }),
            ("registers far behind", Errno::INVAL, DartConnection { first_register: u32::MAX, ..fresh }),
            ("too many registers", Errno::INVAL, DartConnection { registers: 257, ..fresh }),
            ("entries behind the bank", Errno::INVAL, DartConnection { first_entry: 1, ..fresh }),
            ("entries far behind", Errno::INVAL, DartConnection { first_entry: u32::MAX, ..fresh }),
            ("no such endpoint", Errno::NOENT, DartConnection { endpoint: 0, ..fresh }),
            ("no such bank", Errno::NOENT, DartConnection { bank: u32::MAX, ..fresh }),
            ("no such queue", Errno::NOENT, DartConnection { events: 77, ..fresh }),
            ("no such exception queue", Errno::NOENT, DartConnection { exceptions: 77, ..fresh }),
            ("no such host", Errno::HOSTUNREACH, DartConnection { host: 64, ..fresh }),
        ] {
            let done = self.device.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
    }

    fn connect_wrongly(&self, attempts: &mut Attempts) {
        let peer = DartPeer { key: 1, connection: self.connection.connection, peer: 64 };
        for (what, error, mut argument) in [
            (
                "an operating system as peer",
                Errno::INVAL,
                DartPeer { peer: DART_FIRST_CONNECTION - 1, ..peer },
            ),
            ("a peer that cannot be", Errno::INVAL, DartPeer { peer: DART_NUMBERS, ..peer }),
            ("the driver's own connection", Errno::NOENT, DartPeer { connection: 0, ..peer }),
            ("a connection that is not there", Errno::NOENT, DartPeer { connection: u32::MAX, ..peer }),
        ] {
            let done = self.device.card_call::<DART_IOC_CONNECT, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
        let set = DartSetProgram { bank: self.bank.bank, count: 1, ..DartSetProgram::default() };
        for (what, error, mut argument) in [
            ("entries behind the bank", Errno::INVAL, DartSetProgram { first: 4, ..set }),
            ("entries around the end", Errno::INVAL, DartSetProgram { first: 3, count: 2, ..set }),
            ("no entries", Errno::INVAL, DartSetProgram { count: 0, ..set }),
            ("too many entries", Errno::INVAL, DartSetProgram { count: DART_SET_ENTRIES + 1, ..set }),
            ("a program of no bank", Errno::NOENT, DartSetProgram { bank: u32::MAX, ..set }),
        ] {
            let done = self.device.card_call::<DART_IOC_SET_PROGRAM, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
    }

    /// Connects a connection that already has a peer.
    fn connect_twice(&self, attempts: &mut Attempts) -> Outcome {
        let mut own = self.fresh();
        self.device.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut own, &[])?;
        // The connection is its own peer.
        let mut peer = DartPeer { key: own.key, connection: own.connection, peer: own.connection };
        self.device.card_call::<DART_IOC_CONNECT, _>(&mut peer, &[])?;
        let done = self.device.card_call::<DART_IOC_CONNECT, _>(&mut peer, &[]);
        attempts.must_fail("connect twice", done, Errno::BUSY);
        self.device.card_call::<DART_IOC_CONNECTION_CLOSE, _>(&mut object(own.connection), &[])?;
        Ok(())
    }

    /// Uses one file's objects through another file.
    fn use_anothers(&self, attempts: &mut Attempts, other: &Device) {
        let close = |index| object(index);
        let refused = Errno::NOENT;
        let done = other.card_call::<DART_IOC_ENDPOINT_CLOSE, _>(&mut close(self.endpoint.endpoint), &[]);
        attempts.must_fail("close another's endpoint", done, refused);
        let done = other.card_call::<DART_IOC_BANK_CLOSE, _>(&mut close(self.bank.bank), &[]);
        attempts.must_fail("close another's bank", done, refused);
        let done = other.card_call::<DART_IOC_QUEUE_CLOSE, _>(&mut close(self.queue.queue), &[]);
        attempts.must_fail("close another's queue", done, refused);
        let done =
            other.card_call::<DART_IOC_CONNECTION_CLOSE, _>(&mut close(self.connection.connection), &[]);
        attempts.must_fail("close another's connection", done, refused);
        let done = other.card_call::<DART_IOC_CONNECTION_OPEN, _>(&mut self.fresh(), &[]);
        attempts.must_fail("open a connection with another's parts", done, refused);
        let mut peer = DartPeer { key: 1, connection: self.connection.connection, peer: 64 };
        let done = other.card_call::<DART_IOC_CONNECT, _>(&mut peer, &[]);
        attempts.must_fail("connect another's connection", done, refused);
        let mut set = DartSetProgram { bank: self.bank.bank, count: 1, ..DartSetProgram::default() };
        let done = other.card_call::<DART_IOC_SET_PROGRAM, _>(&mut set, &[]);
        attempts.must_fail("program another's bank", done, refused);
        let mut wait = DartQueueWait { timeout_ns: 0, queue: self.queue.queue, taken: 0 };
        let done = other.card_call::<DART_IOC_QUEUE_WAIT, _>(&mut wait, &[]);
        attempts.must_fail("wait at another's queue", done, refused);
        let mut wait = DartLeftWait { timeout_ns: 0, connection: self.connection.connection, left: 0 };
        let done = other.card_call::<DART_IOC_LEFT_WAIT, _>(&mut wait, &[]);
        attempts.must_fail("wait at another's connection", done, refused);
        let mut wait =
            DartExceptionWait { timeout_ns: 0, connection: self.connection.connection, exceptions: 0 };
        let done = other.card_call::<DART_IOC_EXCEPTION_WAIT, _>(&mut wait, &[]);
        attempts.must_fail("wait for another's exceptions", done, refused);
    }

    fn map_wrongly(&self, attempts: &mut Attempts, other: &Device) {
        let (page, state) = (self.connection.page_offset, self.connection.state_offset);
        let records = self.queue.memory_offset;
        let both = Access::ReadWrite;
        attempts.must_fail("map another's connection", other.map(page, PAGE, both), Errno::NXIO);
        attempts.must_fail("map another's queue", other.map(records, 2 * PAGE, both), Errno::NXIO);
        attempts.must_fail("write to the state", self.device.map(state, PAGE, both), Errno::ACCESS);
        attempts.must_fail("map behind the state", self.device.map(state + 4096, PAGE, both), Errno::INVAL);
        attempts.must_fail("map more of the card", self.device.map(page, 2 * PAGE, both), Errno::INVAL);
        attempts.must_fail("map half a queue", self.device.map(records, PAGE, both), Errno::INVAL);
        attempts.must_fail("map a queue's middle", self.device.map(records + 4096, PAGE, both), Errno::INVAL);
    }

    fn wait_wrongly(&self, attempts: &mut Attempts) {
        let wait = DartQueueWait { timeout_ns: 0, queue: self.queue.queue, taken: 0 };
        for (what, error, mut argument) in [
            ("a queue's wait into the past", Errno::INVAL, DartQueueWait { timeout_ns: -2, ..wait }),
            ("a wait for nothing", Errno::TIMEDOUT, wait),
        ] {
            let done = self.device.card_call::<DART_IOC_QUEUE_WAIT, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
        let wait = DartLeftWait { timeout_ns: 0, connection: self.connection.connection, left: 0 };
        for (what, error, mut argument) in [
            ("a connection's wait into the past", Errno::INVAL, DartLeftWait { timeout_ns: -2, ..wait }),
            ("a wait until nothing leaves", Errno::TIMEDOUT, wait),
        ] {
            let done = self.device.card_call::<DART_IOC_LEFT_WAIT, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
        let connection = self.connection.connection;
        let wait = DartExceptionWait { timeout_ns: 0, connection, exceptions: 0 };
        for (what, error, mut argument) in [
            ("an exception's wait into the past", Errno::INVAL, DartExceptionWait { timeout_ns: -2, ..wait }),
            ("a wait for no exception", Errno::TIMEDOUT, wait),
        ] {
            let done = self.device.card_call::<DART_IOC_EXCEPTION_WAIT, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
    }

    /// Stores nonsense wherever it can.
    fn scribble(&self) -> Outcome {
        let page = self.device.map(self.connection.page_offset, PAGE, Access::ReadWrite)?;
        for place in (0..PAGE).step_by(8) {
            page.store_u64(place, u64::MAX);
            let _ = page.load_u64(place);
        }
        let queue = self.device.map(self.queue.memory_offset, 2 * PAGE, Access::ReadWrite)?;
        for place in (0..2 * PAGE).step_by(8) {
            queue.store_u64(place, u64::MAX);
        }
        Ok(())
    }

    fn close(&self, attempts: &mut Attempts) -> Outcome {
        let endpoint = &mut object(self.endpoint.endpoint);
        let bank = &mut object(self.bank.bank);
        let done = self.device.card_call::<DART_IOC_ENDPOINT_CLOSE, _>(endpoint, &[]);
        attempts.must_fail("close an endpoint of a connection", done, Errno::BUSY);
        let done = self.device.card_call::<DART_IOC_BANK_CLOSE, _>(bank, &[]);
        attempts.must_fail("close a bank of a connection", done, Errno::BUSY);
        self.device.card_call::<DART_IOC_QUEUE_CLOSE, _>(&mut object(self.queue.queue), &[])?;
        let connection = &mut object(self.connection.connection);
        self.device.card_call::<DART_IOC_CONNECTION_CLOSE, _>(connection, &[])?;
        self.device.card_call::<DART_IOC_BANK_CLOSE, _>(bank, &[])?;
        self.device.card_call::<DART_IOC_ENDPOINT_CLOSE, _>(endpoint, &[])?;
        let done = self.device.card_call::<DART_IOC_CONNECTION_CLOSE, _>(connection, &[]);
        attempts.must_fail("close a connection twice", done, Errno::NOENT);
        Ok(())
    }
}
