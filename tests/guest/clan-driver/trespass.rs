//! Forbidden uses of the driver's calls and of the memory shared with the driver. Each attempt must
//! be refused, and valid calls must still work afterwards.

use std::io;
use std::path::{Path, PathBuf};

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, print};
use crate::reach;

pub(crate) const PAGE: usize = 4096;

/// Attempts that were refused, and those that were not.
#[derive(Default)]
pub(crate) struct Attempts {
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

    /// Counts the attempt as refused if `so` is true.
    pub(crate) fn must_be(&mut self, what: &str, so: bool) {
        if so {
            self.refused += 1;
        } else {
            self.succeeded.push(what.to_owned());
        }
    }
}

/// The objects of a process.
pub(crate) struct Ground {
    pub(crate) path: PathBuf,
    pub(crate) device: Device,
    pub(crate) memory: Mapping,
    pub(crate) aperture: ClanAperture,
    pub(crate) endpoint: ClanEndpoint,
    pub(crate) events: ClanEvents,
    pub(crate) window: ClanWindow,
}

pub(crate) fn run(path: &Path) -> Outcome {
    let ground = Ground::prepare(path)?;
    let other = Device::open(path)?;
    let mut attempts = Attempts::default();
    ground.open_wrongly(&mut attempts);
    ground.use_anothers(&mut attempts, &other);
    ground.map_wrongly(&mut attempts, &other);
    ground.say_wrongly(&mut attempts);
    ground.scribble()?;
    reach::run(&Ground::prepare(path)?, &Ground::prepare(path)?, &mut attempts)?;
    ground.close(&mut attempts)?;
    Ground::prepare(path)?;
    print(&json!({ "refused": attempts.refused, "succeeded": attempts.succeeded }))
}

fn endpoint(port: u32) -> ClanEndpoint {
    ClanEndpoint { port, tripwires: 2, requests: 16, events: CLAN_NO_EVENTS, ..ClanEndpoint::default() }
}

impl Ground {
    pub(crate) fn prepare(path: &Path) -> Outcome<Self> {
        let device = Device::open(path)?;
        let memory = Mapping::anonymous(2 * PAGE)?;
        let mut aperture = ClanAperture {
            address: memory.address() + 8,
            length: PAGE as u64 + 5,
            flags: CLAN_APERTURE_READ | CLAN_APERTURE_WRITE,
            ..ClanAperture::default()
        };
        device.card_call::<CLAN_IOC_APERTURE_OPEN, _>(&mut aperture, &[&memory])?;
        let mut events = ClanEvents { records: 16, ..ClanEvents::default() };
        device.card_call::<CLAN_IOC_EVENTS_OPEN, _>(&mut events, &[])?;
        let mut endpoint = ClanEndpoint { events: events.queue, ..endpoint(0) };
        device.card_call::<CLAN_IOC_ENDPOINT_OPEN, _>(&mut endpoint, &[])?;
        let mut window = ClanWindow {
            key: aperture.key,
            length: PAGE as u64 + 1,
            aperture: aperture.aperture,
            endpoint: endpoint.endpoint,
            ..ClanWindow::default()
        };
        device.card_call::<CLAN_IOC_WINDOW_OPEN, _>(&mut window, &[])?;
        Ok(Self { path: path.to_owned(), device, memory, aperture, endpoint, events, window })
    }

    /// Opens objects with invalid arguments.
    fn open_wrongly(&self, attempts: &mut Attempts) {
        let fresh = ClanAperture { key: 0, aperture: 0, ..self.aperture };
        let group = ClanAperture { flags: CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP, key: 1, ..fresh };
        let apertures = [
            ("memory that is not aligned", ClanAperture { address: fresh.address + 4, ..fresh }),
            ("no bytes", ClanAperture { length: 0, ..fresh }),
            ("a key of its own choice", ClanAperture { key: 1, ..fresh }),
            ("a number of its own choice", ClanAperture { aperture: 9, ..fresh }),
            ("an operating system's aperture", ClanAperture { flags: CLAN_APERTURE_PRIVILEGED | 3, ..fresh }),
            ("an aperture with parts", ClanAperture { flags: CLAN_APERTURE_PARTS | 2, ..fresh }),
            ("a group that is read", ClanAperture { flags: group.flags | CLAN_APERTURE_READ, ..group }),
            ("a group that there cannot be", ClanAperture { group: 64, ..group }),
            ("a group without the flag", ClanAperture { group: 1, ..fresh }),
        ];
        for (what, mut argument) in apertures {
            let done = self.device.card_call::<CLAN_IOC_APERTURE_OPEN, _>(&mut argument, &[&self.memory]);
            attempts.must_fail(what, done, Errno::INVAL);
        }
        let many = ClanEndpoint { tripwires: 14, events: self.events.queue, ..endpoint(0) };
        let endpoints = [
            ("a port that there is not", endpoint(0x1_0000), Errno::INVAL),
            ("a port that is taken", endpoint(self.endpoint.port), Errno::BUSY),
            ("too many Tripwires", ClanEndpoint { tripwires: 33, ..endpoint(0) }, Errno::INVAL),
            ("requests that are no power of two", ClanEndpoint { requests: 48, ..endpoint(0) }, Errno::INVAL),
            ("too few requests", ClanEndpoint { requests: 8, ..endpoint(0) }, Errno::INVAL),
            ("flags that there are not", ClanEndpoint { flags: 2, ..endpoint(0) }, Errno::INVAL),
            ("an event queue that there is not", ClanEndpoint { events: 77, ..endpoint(0) }, Errno::NOENT),
            ("more sources than a queue has records", many, Errno::NOSPC),
        ];
        for (what, mut argument, error) in endpoints {
            let done = self.device.card_call::<CLAN_IOC_ENDPOINT_OPEN, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
        for records in [0, 8, 17, 131_072, u32::MAX] {
            let mut argument = ClanEvents { records, ..ClanEvents::default() };
            let done = self.device.card_call::<CLAN_IOC_EVENTS_OPEN, _>(&mut argument, &[]);
            attempts.must_fail("a queue of a wrong length", done, Errno::INVAL);
        }
        let fresh = ClanWindow { window: 0, offset_of_pages: 0, ..self.window };
        let windows = [
            ("a window of no bytes", ClanWindow { length: 0, ..fresh }, Errno::INVAL),
            ("a window that is too long", ClanWindow { length: CLAN_MAX_WINDOW + 1, ..fresh }, Errno::INVAL),
            ("a window in a word's midst", ClanWindow { offset: 4, ..fresh }, Errno::INVAL),
            ("a window across the end", ClanWindow { offset: u64::MAX - 7, ..fresh }, Errno::INVAL),
            (
                "a group that is not",
                ClanWindow { host: CLAN_GROUP_HOST + 64, aperture: 0, ..fresh },
                Errno::INVAL,
            ),
            ("an endpoint that is not", ClanWindow { endpoint: 99, ..fresh }, Errno::NOENT),
            ("the driver's endpoint", ClanWindow { endpoint: 0, ..fresh }, Errno::NOENT),
        ];
        for (what, mut argument, error) in windows {
            let done = self.device.card_call::<CLAN_IOC_WINDOW_OPEN, _>(&mut argument, &[]);
            attempts.must_fail(what, done, error);
        }
    }

    /// Uses another open file, which is another protection domain, even in one process.
    fn use_anothers(&self, attempts: &mut Attempts, other: &Device) {
        let object = |index| UlnObject { index, ..UlnObject::default() };
        let mut index = object(self.aperture.aperture);
        let done = other.card_call::<CLAN_IOC_APERTURE_CLOSE, _>(&mut index, &[]);
        attempts.must_fail("closing another's aperture", done, Errno::NOENT);
        let mut index = object(self.window.window);
        let done = other.card_call::<CLAN_IOC_WINDOW_CLOSE, _>(&mut index, &[]);
        attempts.must_fail("closing another's window", done, Errno::NOENT);
        let mut index = object(self.endpoint.endpoint);
        let done = other.card_call::<CLAN_IOC_ENDPOINT_CLOSE, _>(&mut index, &[]);
        attempts.must_fail("closing another's endpoint", done, Errno::NOENT);
        let mut index = object(self.events.queue);
        let done = other.card_call::<CLAN_IOC_EVENTS_CLOSE, _>(&mut index, &[]);
        attempts.must_fail("closing another's event queue", done, Errno::NOENT);
        for number in [0, self.endpoint.endpoint, u32::MAX] {
            let mut wait = ClanWait { bits: 1, endpoint: number, ..ClanWait::default() };
            let done = other.card_call::<CLAN_IOC_WAIT, _>(&mut wait, &[]);
            attempts.must_fail("waiting at another's endpoint", done, Errno::NOENT);
            let mut send = ClanSend { endpoint: number, port: 2000, kind: 5, ..ClanSend::default() };
            let done = other.card_call::<CLAN_IOC_SEND, _>(&mut send, &[]);
            attempts.must_fail("sending from another's endpoint", done, Errno::NOENT);
        }
        let mut argument = ClanEndpoint { events: self.events.queue, ..endpoint(0) };
        let done = other.card_call::<CLAN_IOC_ENDPOINT_OPEN, _>(&mut argument, &[]);
        attempts.must_fail("events to another's queue", done, Errno::NOENT);
        let mut window = ClanWindow { window: 0, offset_of_pages: 0, ..self.window };
        let done = other.card_call::<CLAN_IOC_WINDOW_OPEN, _>(&mut window, &[]);
        attempts.must_fail("a window of another's endpoint", done, Errno::NOENT);
    }

    /// Maps pages that belong to another file, or too many of them.
    fn map_wrongly(&self, attempts: &mut Attempts, other: &Device) {
        let own = [
            (self.endpoint.page_offset, PAGE),
            (self.endpoint.memory_offset, 2 * PAGE),
            (self.events.memory_offset, 2 * PAGE),
            (self.window.offset_of_pages, 2 * PAGE),
        ];
        for (offset, length) in own {
            let done = self.device.map(offset, length + PAGE, Access::ReadWrite);
            attempts.must_fail("a page more", done, Errno::INVAL);
            let done = other.map(offset, length, Access::ReadWrite);
            attempts.must_fail("another file's pages", done, Errno::NXIO);
            if let Err(error) = self.device.map(offset, length, Access::ReadWrite) {
                attempts.succeeded.push(format!("its own pages are refused: {error}"));
            }
        }
    }

    /// Waits and sends with invalid arguments.
    fn say_wrongly(&self, attempts: &mut Attempts) {
        let own = self.endpoint.endpoint;
        for (bits, timeout_ns, error) in
            [(0, 0, Errno::INVAL), (1 << 48, 0, Errno::INVAL), (1, -2, Errno::INVAL), (1, 0, Errno::TIMEDOUT)]
        {
            let mut wait = ClanWait { bits, timeout_ns, endpoint: own, ..ClanWait::default() };
            let done = self.device.card_call::<CLAN_IOC_WAIT, _>(&mut wait, &[]);
            attempts.must_fail("a wait that has no end in sight", done, error);
        }
        let right = ClanSend { endpoint: own, port: 2000, kind: CLAN_MESSAGE_DATA, ..ClanSend::default() };
        for (what, mut send, error) in [
            ("a message that is the driver's", ClanSend { kind: CLAN_MESSAGE_GONE, ..right }, Errno::INVAL),
            ("a message to no port", ClanSend { port: 0, ..right }, Errno::INVAL),
            ("a message to no host", ClanSend { host: 64, ..right }, Errno::HOSTUNREACH),
        ] {
            let done = self.device.card_call::<CLAN_IOC_SEND, _>(&mut send, &[]);
            attempts.must_fail(what, done, error);
        }
        let mut kick = ClanKick { endpoint: own, ..ClanKick::default() };
        let done = self.device.card_call::<CLAN_IOC_KICK, _>(&mut kick, &[]);
        attempts.must_fail("requests that are the card's", done, Errno::INVAL);
        let mut kick = ClanKick { endpoint: 0, ..ClanKick::default() };
        let done = self.device.card_call::<CLAN_IOC_KICK, _>(&mut kick, &[]);
        attempts.must_fail("the driver's requests", done, Errno::NOENT);
    }

    /// Fills all memory shared with the card and the driver with nonsense, and makes both read it.
    /// Valid counts are not among the values.
    fn scribble(&self) -> Outcome {
        let mut own = ClanEndpoint { flags: CLAN_DRIVERS_DMA, ..endpoint(0) };
        self.device.card_call::<CLAN_IOC_ENDPOINT_OPEN, _>(&mut own, &[])?;
        let memory = self.device.map(own.memory_offset, 2 * PAGE, Access::ReadWrite)?;
        let queue = self.device.map(self.events.memory_offset, 2 * PAGE, Access::ReadWrite)?;
        for seed in [u64::MAX, 0x5555_5555_5555_5555, 0x1_0000_0001_0000, 0x8000_0000_8000_0000] {
            for word in (0..2 * PAGE).step_by(8) {
                memory.store_u64(word, seed);
                queue.store_u64(word, seed);
            }
            let mut kick = ClanKick { endpoint: own.endpoint, ..ClanKick::default() };
            self.device.card_call::<CLAN_IOC_KICK, _>(&mut kick, &[])?;
            // The room is read from the scribbled memory, so there may be none.
            let mut send = ClanSend {
                endpoint: own.endpoint,
                port: own.port,
                kind: CLAN_MESSAGE_DATA,
                ..ClanSend::default()
            };
            let _ = self.device.card_call::<CLAN_IOC_SEND, _>(&mut send, &[]);
            let mut wait = ClanEventsWait {
                timeout_ns: 1_000_000,
                queue: self.events.queue,
                ..ClanEventsWait::default()
            };
            let _ = self.device.card_call::<CLAN_IOC_EVENTS_WAIT, _>(&mut wait, &[]);
        }
        // The card must still answer a meaningless request.
        memory.store_u64(CLAN_STATE_CLEARED as usize, memory.load_u64(CLAN_STATE_BITS as usize));
        memory.store_u64(PAGE, u64::from(CLAN_DMA_NOTIFY) << 32);
        memory.store_u32(CLAN_STATE_PUT as usize, 1);
        self.device
            .card_call::<CLAN_IOC_KICK, _>(&mut ClanKick { endpoint: own.endpoint, reserved: 0 }, &[])?;
        let mut wait = ClanWait {
            bits: 1 << CLAN_BIT_DMA,
            timeout_ns: 60_000_000_000,
            endpoint: own.endpoint,
            ..ClanWait::default()
        };
        self.device.card_call::<CLAN_IOC_WAIT, _>(&mut wait, &[])?;
        let result = memory.load_u32(PAGE + std::mem::offset_of!(ClanRequest, result));
        if result != CLAN_DMA_BAD_REQUEST {
            return Err(format!("a request that means nothing: {result}").into());
        }
        let mut object = UlnObject { index: own.endpoint, ..UlnObject::default() };
        self.device.card_call::<CLAN_IOC_ENDPOINT_CLOSE, _>(&mut object, &[])?;
        Ok(())
    }

    /// An endpoint that a window names cannot be closed. Then everything closes in order.
    fn close(&self, attempts: &mut Attempts) -> Outcome {
        let object = |index| UlnObject { index, ..UlnObject::default() };
        let mut index = object(self.endpoint.endpoint);
        let done = self.device.card_call::<CLAN_IOC_ENDPOINT_CLOSE, _>(&mut index, &[]);
        attempts.must_fail("closing an endpoint that a window names", done, Errno::BUSY);
        self.device.card_call::<CLAN_IOC_WINDOW_CLOSE, _>(&mut object(self.window.window), &[])?;
        self.device.card_call::<CLAN_IOC_EVENTS_CLOSE, _>(&mut object(self.events.queue), &[])?;
        let mut of = ClanEventsOf { endpoint: self.endpoint.endpoint, events: self.events.queue };
        let done = self.device.card_call::<CLAN_IOC_EVENTS_OF, _>(&mut of, &[]);
        attempts.must_fail("events to a queue that is closed", done, Errno::NOENT);
        self.device.card_call::<CLAN_IOC_ENDPOINT_CLOSE, _>(&mut index, &[])?;
        self.device.card_call::<CLAN_IOC_APERTURE_CLOSE, _>(&mut object(self.aperture.aperture), &[])?;
        let done =
            self.device.card_call::<CLAN_IOC_APERTURE_CLOSE, _>(&mut object(self.aperture.aperture), &[]);
        attempts.must_fail("closing twice", done, Errno::NOENT);
        Ok(())
    }
}
