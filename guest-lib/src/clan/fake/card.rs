//! An open card of the fake network.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hamlyn_abi::clan::command::CLAN_NO_EVENTS;
use hamlyn_abi::clan::dma::CLAN_REQUEST_SIZE;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::{CLAN_EVENT_SIZE, CLAN_EVENTS_HEAD};
use hamlyn_abi::clan::uapi::*;
use hamlyn_abi::uapi::{UlnQuery, UlnSelfTest, UlnStatistics};
use hamlyn_sys::{Access, Mapping};
use rustix::io::Errno;
use zerocopy::FromZeros;

use super::Pages;
use super::endpoint::Endpoint;
use super::net::Net;
use super::state::{Aperture, Queue};
use crate::clan::attachment::{Attachment, Object};
use crate::clan::card::Card;
use crate::clan::endpoint::state::bits_of;
use crate::core::attach::{CardAttachment, QueueFile};
use crate::core::key::random_key;
use crate::core::memory::Memory;
use crate::error::{Error, GivenBack, Result};

impl Net {
    pub(in super::super) fn open(self: &Arc<Self>, host: u32) -> Card {
        Card::attached(Arc::new(FakeCard::new(self, host)))
    }
}

/// Maximum time of one sleep, because the thread that plays the cards may miss a change that is
/// undone at once.
const NAP: Duration = Duration::from_millis(2);

#[derive(Debug)]
struct FakeCard {
    net: Arc<Net>,
    host: u32,
    owner: u32,
    /// Allocated memory, by address.
    allocated: Mutex<HashMap<u64, Pages>>,
    file: OwnedFd,
}

impl FakeCard {
    fn new(net: &Arc<Net>, host: u32) -> Self {
        let owner = net.owners.fetch_add(1, Ordering::Relaxed);
        let file = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        Self { net: net.clone(), host, owner, allocated: Mutex::default(), file }
    }

    /// Sleeps until `look` is true. Checks it a last time when the time is over.
    fn nap(&self, timeout_ns: i64, look: impl Fn() -> bool) -> Result<()> {
        let limit = NAP.min(Duration::from_nanos(timeout_ns.max(0) as u64));
        let begun = Instant::now();
        loop {
            if look() {
                return Ok(());
            }
            if begun.elapsed() >= limit {
                self.net.sleeps.fetch_add(1, Ordering::Relaxed);
                return Err(refused(Errno::TIMEDOUT));
            }
            std::thread::yield_now();
        }
    }
}

fn refused(errno: Errno) -> Error {
    Error::system("be a card")(errno.into())
}

impl CardAttachment for FakeCard {
    fn query(&self) -> Result<UlnQuery> {
        Ok(UlnQuery { host: self.host, ..UlnQuery::default() })
    }

    fn allocate(&self, length: usize) -> Result<Memory> {
        let pages = Pages::new(length);
        let mapping = pages.map(0, length.next_multiple_of(4096), Access::ReadWrite);
        self.allocated.lock().unwrap().insert(mapping.address(), pages);
        Ok(Memory::local(mapping, length))
    }

    fn lend(&self, mapping: Mapping) -> Result<Memory, GivenBack<Mapping>> {
        let length = mapping.length();
        Ok(Memory::local(mapping, length))
    }

    fn statistics(&self) -> Result<UlnStatistics> {
        Ok(UlnStatistics::new_zeroed())
    }

    fn self_test(&self) -> Result<UlnSelfTest> {
        Ok(UlnSelfTest::default())
    }
}

impl Attachment for FakeCard {
    fn open_aperture(&self, argument: &mut ClanAperture, memory: &Memory) -> Result<()> {
        let pages = self.allocated.lock().unwrap().get(&argument.address).cloned();
        let mut state = self.net.lock();
        argument.aperture = state.number();
        argument.key = random_key()?;
        let aperture = Aperture {
            owner: self.owner,
            key: argument.key,
            length: argument.length,
            memory: Arc::downgrade(memory.mapping()),
            pages,
        };
        state.apertures.insert((self.host, argument.aperture), aperture);
        Ok(())
    }

    fn open_window(&self, argument: &mut ClanWindow) -> Result<()> {
        let mut state = self.net.lock();
        argument.window = state.number();
        let found = state.apertures.get(&(argument.host, argument.aperture));
        let found = found.filter(|found| found.key == argument.key).and_then(|found| found.pages.clone());
        let (pages, from) = match found {
            Some(pages) => (pages, argument.offset),
            None => {
                let dead = Pages::new(argument.length as usize);
                dead.mapping.write(0, &vec![0xff; argument.length as usize]);
                (dead, 0)
            }
        };
        argument.offset_of_pages = state.give_out(pages, from);
        state.windows.insert(argument.window, argument.endpoint);
        let endpoint = state.endpoints.get_mut(&argument.endpoint).unwrap();
        endpoint.windows += 1;
        Ok(())
    }

    fn open_endpoint(&self, argument: &mut ClanEndpoint) -> Result<()> {
        let mut state = self.net.lock();
        argument.endpoint = state.number();
        if argument.port == 0 {
            argument.port = 20_000 + argument.endpoint;
        }
        if state.at(self.host, argument.port).is_some() {
            return Err(refused(Errno::BUSY));
        }
        let memory = Pages::new((CLAN_STATE_SIZE + argument.requests * CLAN_REQUEST_SIZE) as usize);
        let page = Pages::new(CLAN_ENDPOINT_SIZE as usize);
        memory.mapping.store_u32(CLAN_STATE_IDLE as usize, 1);
        argument.memory_offset = state.give_out(memory.clone(), 0);
        argument.page_offset = state.give_out(page.clone(), 0);
        let endpoint = Endpoint {
            owner: self.owner,
            host: self.host,
            port: argument.port,
            memory,
            page,
            requests: argument.requests,
            events: None,
            peer: None,
            windows: 0,
            posted: 0,
            controls: [0; 32],
            armed: Default::default(),
        };
        state.endpoints.insert(argument.endpoint, endpoint);
        Ok(())
    }

    fn open_events(&self, argument: &mut ClanEvents) -> Result<()> {
        let mut state = self.net.lock();
        argument.queue = state.number();
        let memory = Pages::new((CLAN_EVENTS_HEAD + argument.records * CLAN_EVENT_SIZE) as usize);
        argument.memory_offset = state.give_out(memory.clone(), 0);
        let queue = Queue { memory, records: argument.records, put: 0, sources: HashMap::new() };
        state.queues.insert(argument.queue, queue);
        Ok(())
    }

    fn close(&self, what: Object, number: u32) {
        let mut state = self.net.lock();
        match what {
            Object::Aperture => drop(state.apertures.remove(&(self.host, number)).unwrap()),
            Object::Window => {
                let endpoint = state.windows.remove(&number).unwrap();
                state.endpoints.get_mut(&endpoint).unwrap().windows -= 1;
            }
            Object::Endpoint => {
                let gone = state.endpoints.remove(&number).unwrap();
                assert_eq!(gone.windows, 0, "the endpoint is in use by a window");
                let own = (gone.host, gone.port);
                if let Some(peer) = gone.peer {
                    if state.at(peer.0, peer.1).is_some_and(|(_, other)| other.peer == Some(own)) {
                        state.say(own, peer, CLAN_MESSAGE_GONE, [0; 5]);
                    }
                }
            }
            Object::Events => drop(state.queues.remove(&number).unwrap()),
        }
    }

    fn map_pages(&self, _: &str, offset: u64, length: usize, access: Access) -> Result<Arc<Mapping>> {
        let state = self.net.lock();
        let (pages, from) = &state.maps[&offset];
        Ok(Arc::new(pages.map(*from, length, access)))
    }

    fn wait(&self, argument: &mut ClanWait) -> Result<()> {
        let memory = self.net.lock().endpoints[&argument.endpoint].memory.mapping.clone();
        self.nap(argument.timeout_ns, || bits_of(&memory) & argument.bits != 0)
    }

    fn wait_for_events(&self, argument: &mut ClanEventsWait) -> Result<()> {
        self.nap(argument.timeout_ns, || self.net.lock().queues[&argument.queue].put != argument.taken)
    }

    fn send(&self, argument: &mut ClanSend) -> Result<()> {
        if argument.host > 63 {
            return Err(refused(Errno::HOSTUNREACH));
        }
        let mut state = self.net.lock();
        let from = (self.host, state.endpoints[&argument.endpoint].port);
        let to = (argument.host, argument.port);
        if !state.say(from, to, argument.kind, argument.data) {
            state.say(to, from, CLAN_MESSAGE_UNDELIVERED, argument.data);
        }
        Ok(())
    }

    fn set_peer(&self, argument: &mut ClanPeer) -> Result<()> {
        let peer = (argument.port != 0).then_some((argument.host, argument.port));
        self.net.lock().endpoints.get_mut(&argument.endpoint).unwrap().peer = peer;
        Ok(())
    }

    fn set_events(&self, argument: &mut ClanEventsOf) -> Result<()> {
        let events = (argument.events != CLAN_NO_EVENTS).then_some(argument.events);
        self.net.lock().endpoints.get_mut(&argument.endpoint).unwrap().events = events;
        Ok(())
    }

    fn kick(&self, _: &mut ClanKick) -> Result<()> {
        self.net.kicks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn file(&self) -> QueueFile<'_> {
        QueueFile::Borrowed(self.file.as_fd())
    }
}
