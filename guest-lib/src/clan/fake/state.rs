//! The objects of all hosts of the fake network.

use std::collections::HashMap;
use std::sync::Weak;

use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::uapi::ClanMessage;
use hamlyn_sys::Mapping;

use super::Pages;
use super::endpoint::Endpoint;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) apertures: HashMap<(u32, u32), Aperture>,
    /// By number, which is unique across hosts.
    pub(super) endpoints: HashMap<u32, Endpoint>,
    pub(super) queues: HashMap<u32, Queue>,
    pub(super) windows: HashMap<u32, u32>,
    /// Pages that can be mapped and the first byte, by the offset returned for them.
    pub(super) maps: HashMap<u64, (Pages, u64)>,
    next: u32,
}

#[derive(Debug)]
pub(super) struct Aperture {
    pub(super) owner: u32,
    pub(super) key: u64,
    pub(super) length: u64,
    pub(super) memory: Weak<Mapping>,
    pub(super) pages: Option<Pages>,
}

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) memory: Pages,
    pub(super) records: u32,
    pub(super) put: u32,
    pub(super) sources: HashMap<(u32, u32, u32), u32>,
}

impl State {
    pub(super) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn give_out(&mut self, pages: Pages, from: u64) -> u64 {
        let offset = u64::from(self.number()) << 12;
        self.maps.insert(offset, (pages, from));
        offset
    }

    pub(super) fn at(&mut self, host: u32, port: u32) -> Option<(u32, &mut Endpoint)> {
        let found = self.endpoints.iter_mut().find(|(_, one)| (one.host, one.port) == (host, port));
        found.map(|(number, endpoint)| (*number, endpoint))
    }

    /// Sends a message. Returns false if the receiver does not exist or has no room.
    pub(super) fn say(&mut self, from: (u32, u32), to: (u32, u32), kind: u32, data: [u64; 5]) -> bool {
        let message = ClanMessage { number: 0, kind, host: from.0, port: from.1, data, reserved: 0 };
        let posted = self.at(to.0, to.1).and_then(|(number, one)| one.post(&message).then_some(number));
        if let Some(number) = posted {
            self.event(number, CLAN_EVENT_MESSAGE, 0);
        }
        posted.is_some()
    }

    /// Puts an event into the endpoint's queue, unless one of that source is pending.
    pub(super) fn event(&mut self, number: u32, kind: u32, detail: u32) {
        let Some(queue) = self.endpoints[&number].events else { return };
        let Some(queue) = self.queues.get_mut(&queue) else { return };
        let memory = &queue.memory.mapping;
        let taken = memory.load_u32_acquire(CLAN_EVENTS_TAKEN as usize);
        let source = queue.sources.entry((number, kind, detail)).or_insert(u32::MAX);
        if *source != u32::MAX && (source.wrapping_sub(taken) as i32) >= 0 {
            return;
        }
        *source = queue.put;
        let at = (CLAN_EVENTS_HEAD + queue.put % queue.records * CLAN_EVENT_SIZE) as usize;
        memory.store_u32(at, kind);
        memory.store_u32(at + 4, number);
        memory.store_u32(at + 8, detail);
        queue.put = queue.put.wrapping_add(1);
        memory.store_u32_release(at + 12, queue.put);
    }
}
