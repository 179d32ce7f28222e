//! The handling of a store, and the switch between plain and reporting code.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use hamlyn_snoop::Machine;

use crate::decode::Effect;
use crate::known::{Known, PAGE};

/// Number of interrupts without a watched page after which code is plain again: about a second of a
/// busy system. Translating all code again takes a while, and watching may soon begin again.
const QUIET: u32 = 256;

/// How code is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Plain code, without any call.
    Bare,
    /// Code that calls us at each store.
    Telling,
}

/// QEMU's information about a store that was just made.
pub(crate) trait Access {
    /// Returns its width in bytes: 1, 2, 4, 8 or 16.
    fn width(&self) -> u64;
    /// Returns the value that it wrote.
    fn value(&self) -> [u8; 16];
    /// Returns the guest-physical address of one of its bytes, if that is in ordinary memory.
    fn physical(&self, address: u64) -> Option<u64>;
}

/// Processor of a store, if there are several and QEMU does not report which one runs.
const UNKNOWN: u32 = u32::MAX;

/// A processor.
#[derive(Debug)]
struct Processor {
    known: Known,
    /// Value that identifies it while it runs; 0 until it has been seen.
    name: AtomicUsize,
}

/// A machine whose stores a card watches.
#[derive(Debug)]
pub(crate) struct Snooper {
    machine: Machine,
    processors: Box<[Processor]>,
    code: AtomicU8,
    /// The code that has been requested from QEMU.
    wanted: AtomicU8,
    /// Number of interrupts so far.
    interrupts: AtomicU32,
    /// The last interrupt at which something was watched.
    watched_at: AtomicU32,
    /// Whether a block of code was translated completely since the last exception.
    is_whole: AtomicBool,
}

impl Snooper {
    pub(crate) fn new(machine: Machine, processors: usize) -> Snooper {
        let bare = Code::Bare as u8;
        let processors =
            (0..processors).map(|_| Processor { known: Known::new(), name: AtomicUsize::new(0) }).collect();
        Snooper {
            machine,
            processors,
            code: AtomicU8::new(bare),
            wanted: AtomicU8::new(bare),
            interrupts: AtomicU32::new(0),
            watched_at: AtomicU32::new(0),
            is_whole: AtomicBool::new(true),
        }
    }

    /// Returns the calling processor. If several take turns on one thread, QEMU translates code
    /// once for all of them. A call from code then reports the processor that first ran it. So the
    /// value that identifies the running processor is used instead.
    #[inline]
    fn caller(&self, said: u32, running: impl Fn() -> usize) -> u32 {
        if self.processors.len() == 1 {
            return said;
        }
        let running = running();
        let is_it = |processor: &Processor| processor.name.load(Ordering::Relaxed) == running;
        let found = self.processors.iter().position(is_it).filter(|_| running != 0);
        found.map_or(UNKNOWN, |found| found as u32)
    }

    /// Returns the cached pages of a processor, or `None` if the processor is unknown.
    #[inline]
    fn known(&self, processor: u32) -> Option<&Known> {
        self.processors.get(processor as usize).map(|processor| &processor.known)
    }

    /// Handles a store to a virtual address. `said` is the processor as QEMU reports it; `running`
    /// returns the value that identifies the running processor.
    #[inline]
    pub(crate) fn store(&self, said: u32, running: impl Fn() -> usize, address: u64, access: &impl Access) {
        let watch = self.machine.watch();
        // The lowest bit shows whether anything is watched.
        if watch & 1 == 0 {
            return;
        }
        let processor = self.caller(said, running);
        if !self.known(processor).is_some_and(|known| known.is_unwatched(address, watch)) {
            self.look(processor, address, access);
        }
    }

    /// Queries the store's physical addresses, and reports the store if it is watched.
    #[cold]
    fn look(&self, processor: u32, address: u64, access: &impl Access) {
        let width = access.width();
        let first = width.min(PAGE - address % PAGE);
        let parts = [(0, first), (first, width - first)];
        for (start, width) in parts.into_iter().filter(|(_, width)| *width > 0) {
            let virtual_address = address.wrapping_add(start);
            let Some(physical) = access.physical(virtual_address) else { continue };
            if self.machine.is_watched(physical) {
                let value = access.value();
                self.machine.tell(processor, physical, &value[start as usize..(start + width) as usize]);
            } else if let Some(known) = self.known(processor) {
                known.remember(virtual_address);
            }
        }
    }

    /// Called before an instruction with this effect.
    pub(crate) fn effect(&self, said: u32, running: impl Fn() -> usize, effect: Effect) {
        let Some(known) = self.known(self.caller(said, running)) else { return };
        match effect {
            Effect::None => {}
            Effect::Changes => known.forget(),
            Effect::Nests => known.give_up(),
        }
    }

    /// Called when a processor was interrupted, which is where code can be translated anew. Returns
    /// whether QEMU is to do that; [`Snooper::code_is_gone`] must be called then.
    pub(crate) fn interrupted(&self, processor: u32, running: usize) -> bool {
        self.left(processor, running, self.is_whole.load(Ordering::Relaxed))
    }

    /// The same for an exception. Code may have been fetched in vain, so that a block is only
    /// partly translated. QEMU's notes for that block's callbacks then stay for the next block, and
    /// QEMU does not remove them if no code has callbacks any longer. So code stays as it is until
    /// a block has been translated completely.
    pub(crate) fn excepted(&self, processor: u32, running: usize) -> bool {
        self.is_whole.store(false, Ordering::Relaxed);
        self.left(processor, running, false)
    }

    /// Called when a block was translated completely.
    pub(crate) fn translated(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }

    fn left(&self, processor: u32, running: usize, may_be_bare: bool) -> bool {
        if let Some(processor) = self.processors.get(processor as usize) {
            processor.known.forget();
            // Here QEMU itself reports the processor.
            processor.name.store(running, Ordering::Relaxed);
        }
        let (code, wanted) = (self.code.load(Ordering::Relaxed), self.wanted.load(Ordering::Relaxed));
        if code != wanted {
            return false;
        }
        let count = self.interrupts.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if count % QUIET == 0 {
            self.machine.look();
        }
        if self.machine.is_any_watched() {
            self.watched_at.store(count, Ordering::Relaxed);
            return code == Code::Bare as u8 && self.want(Code::Telling);
        }
        let quiet = count.wrapping_sub(self.watched_at.load(Ordering::Relaxed));
        let is_quiet = code == Code::Telling as u8 && quiet >= QUIET && may_be_bare;
        is_quiet && self.machine.end() && self.want(Code::Bare)
    }

    fn want(&self, code: Code) -> bool {
        self.wanted.store(code as u8, Ordering::Relaxed);
        true
    }

    /// Called when all code is gone, and no processor runs. Returns how code is to be translated
    /// from now on.
    pub(crate) fn code_is_gone(&self) -> Code {
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.code.store(wanted, Ordering::Relaxed);
        if wanted == Code::Telling as u8 { Code::Telling } else { Code::Bare }
    }

    /// Announces that all code reports its stores from now on.
    pub(crate) fn begin(&self) {
        self.machine.begin();
    }

    /// For a QEMU that does not report interrupts: all code always reports its stores.
    pub(crate) fn always(&self) {
        self.want(Code::Telling);
        self.code_is_gone();
        self.begin();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
