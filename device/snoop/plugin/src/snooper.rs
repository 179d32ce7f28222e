//! What is done about a store, and when code is to tell of its stores.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

use hamlyn_snoop::Machine;

use crate::decode::Effect;
use crate::known::{Known, PAGE};

/// After so many interrupts with nothing watched code is bare again: about a second of a busy
/// system. To translate all again takes a while, and who stops to watch may soon begin again.
const QUIET: u32 = 256;

/// How code is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Code {
    /// Without any call.
    Bare,
    /// It calls at each store.
    Telling,
}

/// What QEMU says of a store that has just been made.
pub(crate) trait Access {
    /// Its bytes: 1, 2, 4, 8 or 16.
    fn width(&self) -> u64;
    /// What it wrote.
    fn value(&self) -> [u8; 16];
    /// The guest-physical address of one of its bytes, if that is in ordinary memory.
    fn physical(&self, address: u64) -> Option<u64>;
}

/// A store's processor, if there are several and QEMU does not say which of them runs.
const UNKNOWN: u32 = u32::MAX;

/// A processor.
#[derive(Debug)]
struct Processor {
    known: Known,
    /// What stands for it while it runs; 0 until that has been seen.
    name: AtomicUsize,
}

/// A machine with a card that wants to know of its stores.
#[derive(Debug)]
pub(crate) struct Snooper {
    machine: Machine,
    processors: Box<[Processor]>,
    code: AtomicU8,
    /// The code that has been asked for, and is not there yet.
    wanted: AtomicU8,
    /// Interrupts so far.
    interrupts: AtomicU32,
    /// The last of them at which something was watched.
    watched_at: AtomicU32,
    /// Since the last exception a block of code was translated to its end.
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

    /// Which processor called. If several take turns on one thread QEMU translates code once for
    /// all of them, and says in a call from code who was the first to run it. So they are told
    /// apart by what stands for the one that runs.
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

    /// What a processor knows. Nothing, if nobody knows which it is.
    #[inline]
    fn known(&self, processor: u32) -> Option<&Known> {
        self.processors.get(processor as usize).map(|processor| &processor.known)
    }

    /// A store to a virtual address was made: by which processor, as QEMU says, and what stands for
    /// the one that runs.
    #[inline]
    pub(crate) fn store(&self, said: u32, running: impl Fn() -> usize, address: u64, access: &impl Access) {
        let watch = self.machine.watch();
        // Its lowest bit: whether anything is watched.
        if watch & 1 == 0 {
            return;
        }
        let processor = self.caller(said, running);
        if !self.known(processor).is_some_and(|known| known.is_unwatched(address, watch)) {
            self.look(processor, address, access);
        }
    }

    /// Asks for the store's physical addresses, and tells of it if that is wanted.
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

    /// An instruction is about to be executed that has this effect.
    pub(crate) fn effect(&self, said: u32, running: impl Fn() -> usize, effect: Effect) {
        let Some(known) = self.known(self.caller(said, running)) else { return };
        match effect {
            Effect::None => {}
            Effect::Changes => known.forget(),
            Effect::Nests => known.give_up(),
        }
    }

    /// A processor was interrupted: that is where code can be translated anew. True: ask QEMU for
    /// it, and call [`Snooper::code_is_gone`] then.
    pub(crate) fn interrupted(&self, processor: u32, running: usize) -> bool {
        self.left(processor, running, self.is_whole.load(Ordering::Relaxed))
    }

    /// The same, by an exception. Code may have been fetched in vain, so that a block is translated
    /// in part. What QEMU has noted for that block's calls stays with the next one, which it does
    /// not tidy if no code is to call any more: so code stays as it is until a block has come to
    /// its end.
    pub(crate) fn excepted(&self, processor: u32, running: usize) -> bool {
        self.is_whole.store(false, Ordering::Relaxed);
        self.left(processor, running, false)
    }

    /// A block was translated to its end.
    pub(crate) fn translated(&self) {
        self.is_whole.store(true, Ordering::Relaxed);
    }

    fn left(&self, processor: u32, running: usize, may_be_bare: bool) -> bool {
        if let Some(processor) = self.processors.get(processor as usize) {
            processor.known.forget();
            // Here QEMU says itself which it is.
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

    /// No code is there, and no processor runs. How it is to be translated from now on.
    pub(crate) fn code_is_gone(&self) -> Code {
        let wanted = self.wanted.load(Ordering::Relaxed);
        self.code.store(wanted, Ordering::Relaxed);
        if wanted == Code::Telling as u8 { Code::Telling } else { Code::Bare }
    }

    /// All code tells of its stores from now on.
    pub(crate) fn begin(&self) {
        self.machine.begin();
    }

    /// For a QEMU that says nothing of interrupts: all code tells of its stores, always.
    pub(crate) fn always(&self) {
        self.want(Code::Telling);
        self.code_is_gone();
        self.begin();
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
