//! The work of the cards of the fake network.

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::event::*;
use hamlyn_abi::clan::tripwire::*;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

use super::endpoint::{Armed, Endpoint};
use super::state::State;

/// The events of an endpoint: kinds and details.
type Done = Vec<(u32, u32)>;

impl State {
    /// Does one round of work for all cards.
    pub(super) fn serve_all(&mut self) {
        let numbers: Vec<_> = self.endpoints.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.serve(number));
    }

    /// Processes the owner's commands and the changes of memory.
    pub(super) fn serve(&mut self, number: u32) {
        let mut done = Done::new();
        for index in 0..CLAN_MAX_TRIPWIRES {
            self.told(number, index);
            self.fire(number, index, &mut done);
        }
        self.carry_out(number, &mut done);
        for (kind, detail) in done {
            self.event(number, kind, detail);
        }
    }

    fn told(&mut self, number: u32, index: u32) {
        let endpoint = &self.endpoints[&number];
        let at = (index * CLAN_TRIPWIRE_STRIDE) as usize;
        let control = endpoint.page.mapping.load_u32_acquire(at + CLAN_TRIPWIRE_CONTROL as usize);
        if control == endpoint.controls[index as usize] {
            return;
        }
        let (answer, armed) = self.arm(endpoint, at, control & 0xffff);
        let word = (CLAN_STATE_TRIPWIRES + index * 8 + 4) as usize;
        let endpoint = self.endpoints.get_mut(&number).unwrap();
        endpoint.controls[index as usize] = control;
        endpoint.armed[index as usize] = armed;
        endpoint.memory.mapping.store_u32_release(word, answer | control & 0xffff_0000);
    }

    fn arm(&self, endpoint: &Endpoint, at: usize, flags: u32) -> (u32, Option<Armed>) {
        if flags & CLAN_TRIPWIRE_ENABLE == 0 {
            return (CLAN_TRIPWIRE_OK, None);
        }
        let word = |offset: u32| endpoint.page.mapping.load_u64(at + offset as usize);
        let (offset, length) = (word(CLAN_TRIPWIRE_OFFSET), word(CLAN_TRIPWIRE_LENGTH));
        let target = word(CLAN_TRIPWIRE_TARGET);
        let remote = flags & CLAN_TRIPWIRE_REMOTE != 0;
        let host = if remote { (target >> 32) as u32 } else { endpoint.host };
        let found = self.apertures.get(&(host, target as u32));
        let Some(aperture) = found.filter(|found| remote || found.owner == endpoint.owner) else {
            return (CLAN_TRIPWIRE_NO_APERTURE, None);
        };
        if length == 0 || offset + length > aperture.length {
            return (CLAN_TRIPWIRE_BAD_RANGE, None);
        }
        if flags & CLAN_TRIPWIRE_EVENT != 0 && endpoint.events.is_none() {
            return (CLAN_TRIPWIRE_NO_EVENTS, None);
        }
        let Some(memory) = aperture.memory.upgrade() else { return (CLAN_TRIPWIRE_NO_APERTURE, None) };
        (CLAN_TRIPWIRE_OK, Some(Armed::new(memory, offset as usize, length as usize, flags)))
    }

    fn fire(&mut self, number: u32, index: u32, done: &mut Done) {
        let endpoint = self.endpoints.get_mut(&number).unwrap();
        let place = &mut endpoint.armed[index as usize];
        let Some(armed) = place else { return };
        if !armed.changed() || armed.flags() & CLAN_TRIPWIRE_WRITES == 0 {
            return;
        }
        let flags = armed.flags();
        if flags & CLAN_TRIPWIRE_ONCE != 0 {
            *place = None;
        }
        let (memory, word) = (&endpoint.memory.mapping, (CLAN_STATE_TRIPWIRES + index * 8) as usize);
        memory.store_u32_release(word, memory.load_u32(word).wrapping_add(1));
        endpoint.set_bit(index);
        if flags & CLAN_TRIPWIRE_EVENT != 0 {
            done.push((CLAN_EVENT_TRIPWIRE, index));
        }
    }

    fn carry_out(&mut self, number: u32, done: &mut Done) {
        let endpoint = &self.endpoints[&number];
        let memory = endpoint.memory.mapping.clone();
        let put = memory.load_u32_acquire(CLAN_STATE_PUT as usize);
        let mut ended = memory.load_u32(CLAN_STATE_DONE as usize);
        let mut failed = false;
        while ended != put {
            let at = (CLAN_STATE_SIZE + ended % endpoint.requests * CLAN_REQUEST_SIZE) as usize;
            let mut request = ClanRequest::new_zeroed();
            memory.read(at, request.as_mut_bytes());
            let result = if failed { CLAN_DMA_SKIPPED } else { self.transfer(endpoint, &request) };
            failed = result != CLAN_DMA_DONE && request.flags & CLAN_DMA_CHAIN != 0;
            request.result = result;
            memory.write(at, ClanRequest::read_from_bytes(request.as_bytes()).unwrap().as_bytes());
            ended = ended.wrapping_add(1);
            memory.store_u32_release(CLAN_STATE_DONE as usize, ended);
            if request.flags & CLAN_DMA_NOTIFY != 0 {
                endpoint.set_bit(CLAN_BIT_DMA);
                done.push((CLAN_EVENT_DMA, 0));
            }
        }
    }

    fn transfer(&self, endpoint: &Endpoint, request: &ClanRequest) -> u32 {
        let local = self.apertures.get(&(endpoint.host, request.local_aperture));
        let Some(local) = local.filter(|local| local.owner == endpoint.owner) else {
            return CLAN_DMA_BAD_LOCAL;
        };
        let other = self.apertures.get(&(request.host, request.aperture));
        let reached =
            other.filter(|other| other.key == request.key && request.offset + request.length <= other.length);
        let (Some(own), write) = (local.memory.upgrade(), request.opcode == CLAN_DMA_WRITE) else {
            return CLAN_DMA_MEMORY;
        };
        let Some(other) = reached.and_then(|other| other.memory.upgrade()) else {
            // A write is complete when it has left this host.
            if write {
                endpoint.fault(CLAN_FAULT_REFUSED, (request.host, request.aperture), request.offset);
            }
            return if write { CLAN_DMA_DONE } else { CLAN_DMA_REFUSED };
        };
        let mut bytes = vec![0; request.length as usize];
        let (here, there) = (request.local_offset as usize, request.offset as usize);
        if write {
            own.read(here, &mut bytes);
            other.write(there, &bytes);
        } else {
            other.read(there, &mut bytes);
            own.write(here, &bytes);
        }
        CLAN_DMA_DONE
    }
}
