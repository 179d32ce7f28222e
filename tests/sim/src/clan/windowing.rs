//! Accesses of processors to windows: stores, and loads, for which a processor waits.

use hamlyn_abi::clan::endpoint::*;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_card::card::Reading;

use crate::engine::violation::{Violation, ensure};

use super::account::Account;
use super::loads::Load;
use super::objects::Window;
use super::packet::{FROM_SYSTEM, Letter, READ, TO_GROUP, WRITE, group_of};
use super::standing::Standing;

/// Number of stores that may wait before one is lost.
const MANY: usize = 32;

/// A place in a window, or beside it.
#[derive(Debug)]
pub(super) struct Aim {
    /// The first page of the window.
    first: u32,
    window: Window,
    at: u64,
    width: u8,
}

impl Aim {
    pub(super) fn new(account: &Account, first: u32, at: u64, width: u8) -> Option<Self> {
        let window = *account.ledger.windows().get(&first)?;
        Some(Self { first, window, at, width })
    }

    fn is_inside(&self) -> bool {
        self.at + u64::from(self.width) <= self.window.length
    }

    /// Returns the value of a word that reads as ones.
    fn ones(&self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.width))
    }

    /// Returns the packet of an access.
    fn letter(&self, kind: u8, tag: u32, data: Vec<u8>) -> Letter {
        let Window { key, offset, host, aperture, flags, .. } = self.window;
        let (group, aperture) = group_of(host).map_or((0, aperture), |group| (TO_GROUP, group));
        let flags = group | if flags != 0 { FROM_SYSTEM } else { 0 };
        Letter { kind, flags, epoch: 0, tag, key, aperture, offset: offset + self.at, data }
    }

    /// Returns the sender in packets of the window's endpoint, and the endpoint's owner.
    fn owner(&self, account: &Account) -> (u32, u32) {
        let endpoint = account.ledger.endpoints().get(&self.window.endpoint);
        endpoint.map_or((0, 0), |endpoint| (endpoint.tag, endpoint.owner))
    }

    /// Notes that the window's endpoint must be told of a fault.
    fn owe_fault(&self, account: &mut Account, reason: u32) {
        let Window { host, aperture, endpoint, offset, .. } = self.window;
        account.ledger.note_fault(endpoint, (reason, host, aperture, offset + self.at), true);
    }

    /// Stores to the place.
    pub(super) fn store(
        &self,
        account: &mut Account,
        standing: &Standing,
        value: u64,
    ) -> Result<(), Violation> {
        let (host, machine, window) = (account.id, account.machine.clone(), &self.window);
        let refusals = || machine.counters()[usize::from(Counter::StoresRefused)];
        let before = refusals();
        let data = value.to_le_bytes()[..self.width.into()].to_vec();
        let (tag, owner) = self.owner(account);
        let letter = self.letter(WRITE, tag, data);
        let waits = account.program.waiting(window.host);
        let page = machine.options.endpoints + self.first;
        machine.store_page(page, self.at, self.width, value & self.ones())?;
        let refused = refusals() > before;
        let is_full = standing.is_in_trouble(host, window.host) || waits > MANY;
        ensure(refused || self.is_inside(), || format!("host {host}: a store beside a window is taken"))?;
        ensure(!refused || !self.is_inside() || is_full, || {
            format!("host {host}: a store is lost though only {waits} wait: {letter:x?}")
        })?;
        if refused {
            // The card reports which of the two it is.
            if self.at < window.length.div_ceil(4096) * 4096 {
                self.owe_fault(account, if self.is_inside() { CLAN_FAULT_LOST } else { CLAN_FAULT_WINDOW });
            }
            return Ok(());
        }
        let Some(group) = group_of(window.host) else {
            account.program.make(window.host, letter, owner, false);
            return Ok(());
        };
        for member in account.program.members_of(&account.ledger, host, group) {
            // The member may have been given up. Then the loss of this store is not reported.
            let excused = standing.is_in_trouble(host, member.into());
            account.program.make(member.into(), letter.clone(), owner, excused);
        }
        Ok(())
    }

    /// Loads from the place. Returns the number of the load if the processor has to wait for it.
    pub(super) fn load(&self, account: &mut Account, standing: &Standing) -> Result<Option<u64>, Violation> {
        let (host, machine, window) = (account.id, account.machine.clone(), self.window);
        let is_inside = self.is_inside() && group_of(window.host).is_none();
        let letter = self.letter(READ, 0, u32::from(self.width).to_le_bytes().to_vec());
        match machine.load_page(machine.options.endpoints + self.first, self.at, self.width)? {
            Reading::Now(value) => {
                let ones = self.ones();
                let late = account.loads.late_until(window.host);
                let takes = !standing.is_in_trouble(host, window.host) && account.now() >= late;
                ensure(value & ones == ones && (!is_inside || !takes), || {
                    format!("host {host}: a load from {letter:x?} says {value:#x} at once")
                })?;
                self.owe_fault(account, if is_inside { CLAN_FAULT_TIMEOUT } else { CLAN_FAULT_WINDOW });
                Ok(None)
            }
            Reading::Later(number) => {
                ensure(is_inside, || format!("host {host}: a load from {letter:x?} has to wait"))?;
                let (_, owner) = self.owner(account);
                let load = Load::new((self.first, window), letter.offset, self.width, account.now(), owner);
                // The read has the same number as the load.
                account.program.make(window.host, Letter { tag: number as u32, ..letter }, owner, false);
                account.loads.begin(number, load);
                Ok(Some(number))
            }
        }
    }
}
