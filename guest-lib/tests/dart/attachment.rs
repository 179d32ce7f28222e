//! A card in memory, with the interface of its driver.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use hamlyn::attach::{CardAttachment, Mapping, QueueFile};
use hamlyn::dart::{Attachment, Object, Page};
use hamlyn::{Error, GivenBack, Memory, Result};
use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::queue::{DART_QUEUE_HEAD, DART_RECORD_SIZE, DartRecord};
use hamlyn_abi::dart::uapi::*;
use hamlyn_abi::uapi::{UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_card::card::Card as _;
use hamlyn_sys::Access;
use hamlyn_test_host::Refusal;

use crate::net::{Host, Net};

/// Duration of a sleep if nothing is there, in which another thread can work.
const NAP: Duration = Duration::from_micros(200);
/// Bytes of a page.
const PAGE: u32 = 4096;

pub(crate) struct Local {
    net: Arc<Net>,
    host: u32,
    file: OwnedFd,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("host", &self.host).finish_non_exhaustive()
    }
}

fn refused(_: Refusal) -> Error {
    Error::Invalid("the card refuses it")
}

impl Local {
    pub(crate) fn new(net: &Arc<Net>, host: u32) -> Self {
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        Self { net: net.clone(), host, file: rustix::event::eventfd(0, flags).unwrap() }
    }

    fn at<T>(&self, act: impl FnOnce(&mut Host) -> T) -> T {
        self.net.at(self.host, act)
    }

    fn map(&self, address: u64, length: usize, access: Access) -> Result<Mapping> {
        self.at(|host| Mapping::of_file(&host.memory, address, length, access))
            .map_err(|_| Error::Invalid("there is no such memory"))
    }

    /// Advances time. Sleeps for a moment unless `is_so` is true.
    fn nap(&self, is_so: impl Fn(&Host) -> bool) -> Result<()> {
        self.net.tick();
        if !self.at(|host| is_so(host)) {
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

impl CardAttachment for Local {
    fn query(&self) -> Result<UlnQuery> {
        Ok(UlnQuery { host: self.host, ..UlnQuery::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        let address = self.at(|host| host.fresh(length as u64));
        let mapping = self.map(address, length.next_multiple_of(PAGE as usize), Access::ReadWrite)?;
        Ok(Memory::lent(mapping, length, Some(address), None))
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        Err(GivenBack::new(Error::Unsupported("memory of the application's own"), mapping))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        let counters = self.at(|host| host.host.card.counters());
        let mut statistics = UlnStatistics { count: counters.len() as u32, reserved: 0, values: [0; 64] };
        statistics.values.iter_mut().zip(counters).for_each(|(value, (_, counter))| *value = counter);
        Ok(statistics)
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Err(Error::Unsupported("self-tests in memory"))
    }
}

impl Attachment for Local {
    fn open_endpoint(&self, argument: &mut DartEndpoint, _: &Memory) -> Result<()> {
        argument.endpoint = self.at(|host| {
            let area = host.area(argument.address, argument.length);
            let body = DartOpenEndpoint { area, flags: DART_ENDPOINT_PINNED, ..DartOpenEndpoint::default() };
            let number = host.number();
            host.host.run(DART_COMMAND_OPEN_ENDPOINT, number, &body).map(|()| number).map_err(refused)
        })?;
        Ok(())
    }

    fn open_bank(&self, argument: &mut DartBank) -> Result<()> {
        argument.bank = self.at(|host| {
            let number = host.number();
            host.banks.insert(number, host.next);
            host.next = (host.next.0 + argument.registers, host.next.1 + argument.entries);
            number
        });
        Ok(())
    }

    fn open_queue(&self, argument: &mut DartQueue) -> Result<()> {
        let DartQueue { records, flags, .. } = *argument;
        let length = u64::from(DART_QUEUE_HEAD + records * DART_RECORD_SIZE);
        (argument.queue, argument.memory_offset) = self.at(|host| {
            let (start, number) = (host.fresh(length), host.number());
            let body = DartOpenQueue { memory: host.area(start, length), records, flags };
            host.host.run(DART_COMMAND_OPEN_QUEUE, number, &body).map_err(refused)?;
            host.queues.insert(number, (start, records));
            Ok::<_, Error>((number, start))
        })?;
        Ok(())
    }

    fn open_connection(&self, argument: &mut DartConnection) -> Result<()> {
        let opened = &*argument;
        let (number, state) = self.at(|host| {
            let (number, start) = (host.number(), host.fresh(PAGE.into()));
            let (registers, entries) = host.banks[&opened.bank];
            let body = DartOpenConnection {
                state: host.area(start, DART_STATE_SIZE.into()),
                endpoint: opened.endpoint,
                host: opened.host,
                register_base: registers + opened.first_register,
                register_bound: opened.registers,
                program_base: entries + opened.first_entry,
                program_bound: opened.entries,
                events: opened.events,
                exceptions: opened.exceptions,
                flags: opened.flags,
                reserved: 0,
                key: number.into(),
            };
            host.host.run(DART_COMMAND_OPEN_CONNECTION, number, &body).map_err(refused)?;
            host.states.insert(number, (start, opened.host));
            Ok::<_, Error>((number, start))
        })?;
        (argument.connection, argument.key, argument.state_offset) = (number, number.into(), state);
        Ok(())
    }

    fn close(&self, what: Object, number: u32) {
        let opcode = match what {
            Object::Endpoint => DART_COMMAND_CLOSE_ENDPOINT,
            Object::Queue => DART_COMMAND_CLOSE_QUEUE,
            Object::Connection => DART_COMMAND_CLOSE_CONNECTION,
            Object::Bank => return,
        };
        self.at(|host| host.host.run(opcode, number, &0_u64)).unwrap();
        if what == Object::Connection {
            self.net.part(self.host, number);
        }
    }

    fn page(&self, connection: u32, _: u64) -> Result<Box<dyn Page>> {
        Ok(Box::new(Registers { net: self.net.clone(), host: self.host, connection }))
    }

    fn map_pages(&self, _: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        self.map(offset, length, access).map(Arc::new)
    }

    fn set_peer(&self, argument: &mut DartPeer) -> Result<()> {
        let DartPeer { key, connection, peer } = *argument;
        self.at(|host| {
            let body = DartConnect { key, peer, reserved: 0 };
            host.host.run(DART_COMMAND_CONNECT, connection, &body).map_err(refused)?;
            host.peers.insert(connection, (host.states[&connection].1, peer));
            Ok(())
        })
    }

    fn set_program(&self, _: &mut DartSetProgram) -> Result<()> {
        Err(Error::Unsupported("programs in memory"))
    }

    fn wait_for_records(&self, argument: &mut DartQueueWait) -> Result<()> {
        let DartQueueWait { queue, taken, .. } = *argument;
        self.nap(|host| {
            let (start, records) = host.queues[&queue];
            let at = DART_QUEUE_HEAD + taken % records * DART_RECORD_SIZE;
            let number = std::mem::offset_of!(DartRecord, number) as u32;
            host.word(start + u64::from(at + number)) == taken.wrapping_add(1)
        })
    }

    fn wait_until_left(&self, argument: &mut DartLeftWait) -> Result<()> {
        let DartLeftWait { connection, left, .. } = *argument;
        self.nap(|host| host.word(host.states[&connection].0 + u64::from(DART_STATE_LEFT)) != left)
    }

    fn wait_for_exceptions(&self, argument: &mut DartExceptionWait) -> Result<()> {
        let DartExceptionWait { connection, exceptions, .. } = *argument;
        let place = u64::from(DART_STATE_EXCEPTIONS);
        self.nap(|host| host.word(host.states[&connection].0 + place) != exceptions)
    }

    fn file(&self) -> QueueFile<'_> {
        QueueFile::Borrowed(self.file.as_fd())
    }
}

/// A connection's page of the card.
struct Registers {
    net: Arc<Net>,
    host: u32,
    connection: u32,
}

impl fmt::Debug for Registers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registers").field("connection", &self.connection).finish_non_exhaustive()
    }
}

impl Registers {
    fn store(&self, place: u32, width: u8, value: u64) {
        let offset = u64::from(self.connection * PAGE + place);
        self.net.at(self.host, |host| {
            host.host.with_card(|card, ports, _| card.register_write(ports, 2, offset, width, value));
        });
    }
}

impl Page for Registers {
    fn load_u64(&self, place: u32) -> u64 {
        let offset = u64::from(self.connection * PAGE + place);
        let load = |host: &mut Host| {
            host.host.with_card(|card, ports, _| card.register_read(ports, 2, offset, 8)).now()
        };
        self.net.at(self.host, load).unwrap()
    }

    fn store_u64(&self, place: u32, value: u64) {
        self.store(place, 8, value);
    }

    fn store_u32(&self, place: u32, value: u32) {
        self.store(place, 4, value.into());
    }
}
