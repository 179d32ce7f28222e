//! An endpoint of the fake network.

use std::sync::Arc;

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::uapi::ClanMessage;
use hamlyn_sys::Mapping;
use zerocopy::IntoBytes;

use super::Pages;
use crate::clan::endpoint::state::bits_of;

#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) owner: u32,
    pub(super) host: u32,
    pub(super) port: u32,
    pub(super) memory: Pages,
    pub(super) page: Pages,
    pub(super) requests: u32,
    pub(super) events: Option<u32>,
    pub(super) peer: Option<(u32, u32)>,
    pub(super) windows: u32,
    pub(super) posted: u32,
    pub(super) controls: [u32; 32],
    pub(super) armed: [Option<Armed>; 32],
}

/// An enabled Tripwire.
#[derive(Debug)]
pub(super) struct Armed {
    memory: Arc<Mapping>,
    offset: usize,
    seen: Vec<u8>,
    flags: u32,
}

impl Armed {
    pub(super) fn new(memory: Arc<Mapping>, offset: usize, length: usize, flags: u32) -> Self {
        let mut armed = Self { memory, offset, seen: vec![0; length], flags };
        armed.changed();
        armed
    }

    pub(super) fn flags(&self) -> u32 {
        self.flags
    }

    pub(super) fn changed(&mut self) -> bool {
        let mut now = vec![0; self.seen.len()];
        self.memory.read(self.offset, &mut now);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

impl Endpoint {
    pub(super) fn set_bit(&self, bit: u32) {
        let memory = &self.memory.mapping;
        if bits_of(memory) & 1 << bit == 0 {
            let at = CLAN_STATE_BITS as usize;
            memory.store_u64_release(at, memory.load_u64(at) ^ 1 << bit);
        }
    }

    /// Puts a message into the endpoint's queue, if there is room.
    pub(super) fn post(&mut self, message: &ClanMessage) -> bool {
        let memory = &self.memory.mapping;
        let taken = memory.load_u32_acquire(CLAN_STATE_MESSAGES_TAKEN as usize);
        if self.posted.wrapping_sub(taken) >= CLAN_MESSAGES {
            return false;
        }
        let at = (CLAN_STATE_MESSAGES + self.posted % CLAN_MESSAGES * 64) as usize;
        memory.write(at + 4, &message.as_bytes()[4..]);
        self.posted = self.posted.wrapping_add(1);
        memory.store_u32_release(at, self.posted);
        self.set_bit(CLAN_BIT_MESSAGE);
        true
    }

    pub(super) fn fault(&self, reason: u32, (host, aperture): (u32, u32), offset: u64) {
        let memory = &self.memory.mapping;
        memory.store_u32(CLAN_STATE_FAULT_REASON as usize, reason);
        memory.store_u32(CLAN_STATE_FAULT_HOST as usize, host);
        memory.store_u32(CLAN_STATE_FAULT_APERTURE as usize, aperture);
        memory.store_u64(CLAN_STATE_FAULT_OFFSET as usize, offset);
        let count = memory.load_u32(CLAN_STATE_FAULTS as usize).wrapping_add(1);
        memory
            .store_u32(CLAN_STATE_FAULT_USE as usize, self.page.mapping.load_u32(CLAN_ENDPOINT_USE as usize));
        memory.store_u32(CLAN_STATE_FAULTS_BEGUN as usize, count);
        memory.store_u32_release(CLAN_STATE_FAULTS as usize, count);
        self.set_bit(CLAN_BIT_FAULT);
    }
}
