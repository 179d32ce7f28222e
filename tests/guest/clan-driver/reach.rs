//! Attempts at the card itself that are forbidden: a process uses another owner's memory through
//! its own endpoint's page and DMA requests. Two open files are two owners, even in one process.

use std::mem::offset_of;
use std::time::{Duration, Instant};

use hamlyn_abi::clan::dma::*;
use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::tripwire::*;
use hamlyn_abi::clan::wire::{CLAN_SYSTEM_APERTURE, CLAN_SYSTEM_KEY};
use hamlyn_sys::{Access, Mapping};

use crate::common::Outcome;
use crate::trespass::{Attempts, Ground, PAGE};

/// The value of each word of the owner's memory.
const SECRET: u64 = 0x5ec2_e75e_c2e7_5ec2;

/// A process with its own endpoint.
pub(crate) struct Reach<'a> {
    pub(crate) ground: &'a Ground,
    page: Mapping,
    pub(crate) memory: Mapping,
    serial: u32,
    put: u32,
}

/// Attempts accesses to the victim's memory: none of it may be read or changed.
pub(crate) fn run(ground: &Ground, victim: &Ground, attempts: &mut Attempts) -> Outcome {
    (0..2 * PAGE).step_by(8).for_each(|at| victim.memory.store_u64(at, SECRET));
    let mut reach = Reach::new(ground)?;
    reach.watch(victim, attempts)?;
    reach.transfer(victim, attempts)?;
    let all =
        |memory: &Mapping, so: fn(u64) -> bool| (0..2 * PAGE).step_by(8).all(|at| so(memory.load_u64(at)));
    attempts.must_be("the victim's memory is another", all(&victim.memory, |word| word == SECRET));
    attempts.must_be("its memory was read", all(&ground.memory, |word| word != SECRET));
    Ok(())
}

impl<'a> Reach<'a> {
    pub(crate) fn new(ground: &'a Ground) -> Outcome<Self> {
        let device = &ground.device;
        let page = device.map(ground.endpoint.page_offset, PAGE, Access::ReadWrite)?;
        let memory = device.map(ground.endpoint.memory_offset, 2 * PAGE, Access::ReadWrite)?;
        Ok(Self { ground, page, memory, serial: 0, put: 0 })
    }

    fn watch(&mut self, victim: &Ground, attempts: &mut Attempts) -> Outcome {
        let (own, length) = (self.ground.aperture.aperture, self.ground.aperture.length);
        for (what, target, range, answer) in [
            ("another's aperture", victim.aperture.aperture, (0, 8), CLAN_TRIPWIRE_NO_APERTURE),
            ("the driver's aperture", CLAN_SYSTEM_APERTURE, (0, 8), CLAN_TRIPWIRE_NO_APERTURE),
            ("an aperture that is not", u32::MAX, (0, 8), CLAN_TRIPWIRE_NO_APERTURE),
            ("a byte more", own, (0, length + 1), CLAN_TRIPWIRE_BAD_RANGE),
            ("the byte behind the last", own, (length, 1), CLAN_TRIPWIRE_BAD_RANGE),
            ("a range across the end", own, (u64::MAX, 2), CLAN_TRIPWIRE_BAD_RANGE),
            ("no bytes", own, (0, 0), CLAN_TRIPWIRE_BAD_RANGE),
            ("all of its own", own, (0, length), CLAN_TRIPWIRE_OK),
        ] {
            let answered = self.set(target, range)?;
            attempts.must_be(&format!("a Tripwire on {what} is {answered}"), answered == answer);
        }
        Ok(())
    }

    /// Sets the first Tripwire to set a bit when it fires. Returns the card's answer.
    pub(crate) fn set(&mut self, target: u32, range: (u64, u64)) -> Outcome<u32> {
        self.set_to(CLAN_TRIPWIRE_BIT, target, range)
    }

    /// Sets the first Tripwire with this action. Returns the card's answer.
    pub(crate) fn set_to(&mut self, action: u32, target: u32, (offset, length): (u64, u64)) -> Outcome<u32> {
        self.serial += 1;
        let flags = CLAN_TRIPWIRE_ENABLE | CLAN_TRIPWIRE_WRITES | CLAN_TRIPWIRE_READS | action;
        self.page.store_u64(CLAN_TRIPWIRE_OFFSET as usize, offset);
        self.page.store_u64(CLAN_TRIPWIRE_LENGTH as usize, length);
        self.page.store_u64(CLAN_TRIPWIRE_TARGET as usize, target.into());
        self.page.store_u32(CLAN_TRIPWIRE_CONTROL as usize, self.serial << 16 | flags);
        let answer = || self.memory.load_u32(CLAN_STATE_TRIPWIRES as usize + 4);
        until(|| answer() >> 16 == self.serial)?;
        Ok(answer() & 0xffff)
    }

    fn transfer(&mut self, victim: &Ground, attempts: &mut Attempts) -> Outcome {
        let (own, its) = (&self.ground.aperture, &victim.aperture);
        let right = ClanRequest {
            opcode: CLAN_DMA_READ,
            local_aperture: own.aperture,
            host: self.host()?,
            aperture: its.aperture,
            key: its.key,
            length: 64,
            ..ClanRequest::default()
        };
        let write = ClanRequest { opcode: CLAN_DMA_WRITE, aperture: own.aperture, key: own.key, ..right };
        for (what, request, result) in [
            (
                "from another's memory",
                ClanRequest { local_aperture: its.aperture, ..write },
                CLAN_DMA_BAD_LOCAL,
            ),
            (
                "to another's memory",
                ClanRequest { local_aperture: its.aperture, ..right },
                CLAN_DMA_BAD_LOCAL,
            ),
            ("from the driver's memory", ClanRequest { local_aperture: 0, ..write }, CLAN_DMA_BAD_LOCAL),
            ("from a byte more", ClanRequest { local_offset: own.length - 63, ..write }, CLAN_DMA_BAD_LOCAL),
            ("under a key that was guessed", ClanRequest { key: its.key ^ 1, ..right }, CLAN_DMA_REFUSED),
            ("of another number", ClanRequest { aperture: own.aperture, ..right }, CLAN_DMA_REFUSED),
            ("of a byte more", ClanRequest { offset: its.length - 63, ..right }, CLAN_DMA_REFUSED),
            ("across the end", ClanRequest { offset: u64::MAX - 7, ..right }, CLAN_DMA_BAD_REQUEST),
            (
                "of the driver's",
                ClanRequest { aperture: CLAN_SYSTEM_APERTURE, key: CLAN_SYSTEM_KEY, ..right },
                CLAN_DMA_REFUSED,
            ),
        ] {
            let found = self.request(request)?;
            attempts.must_be(&format!("a transfer {what} is {found}"), found == result);
        }
        Ok(())
    }

    /// Returns this card's host, which no page contains.
    fn host(&self) -> Outcome<u32> {
        let card = hamlyn::clan::Card::open_path(&self.ground.path)?;
        Ok(card.host()?.ok_or("the link is down")?)
    }

    /// Submits a request to the card. Returns its result.
    fn request(&mut self, request: ClanRequest) -> Outcome<u32> {
        let place =
            PAGE + self.put as usize % self.ground.endpoint.requests as usize * CLAN_REQUEST_SIZE as usize;
        let bytes = zerocopy::IntoBytes::as_bytes(&request);
        for (at, word) in bytes.chunks_exact(8).enumerate() {
            self.memory.store_u64(place + 8 * at, u64::from_le_bytes(word.try_into()?));
        }
        self.put += 1;
        self.memory.store_u32(CLAN_STATE_PUT as usize, self.put);
        self.page.store_u32(CLAN_ENDPOINT_GO as usize, 1);
        until(|| self.memory.load_u32(CLAN_STATE_DONE as usize) == self.put)?;
        Ok(self.memory.load_u32(place + offset_of!(ClanRequest, result)))
    }
}

/// Waits until the card has written the answer.
fn until(written: impl Fn() -> bool) -> Outcome {
    let begun = Instant::now();
    while !written() {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("the card does not answer".into());
        }
        std::thread::yield_now();
    }
    Ok(())
}
