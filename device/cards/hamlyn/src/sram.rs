//! The card's SRAM (sections 2.6, 4, 6.6): one memory that holds slots, queue control blocks and
//! termini.
//!
//! Slots are allocated from the lowest address up, and the others from the highest address down, so
//! that pieces of one size are adjacent. A [`Place`] is neither copied nor created elsewhere, so
//! each allocation is freed exactly once.

use std::collections::BTreeMap;

use hamlyn_abi::family::command::ULN_STATUS_MEMORY_FULL;
use hamlyn_abi::hamlyn::sram::{
    HAMLYN_SRAM_QUEUE, HAMLYN_SRAM_SLOT, HAMLYN_SRAM_TERMINUS, HAMLYN_SRAM_UNIT, HamlynSramPlace,
};
use hamlyn_card::chassis::refusal::Refusal;

/// Kinds of objects in the SRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Slot,
    Queue,
    Terminus,
}

impl Kind {
    /// Returns the number of bytes that an object takes.
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Kind::Slot => HAMLYN_SRAM_SLOT,
            Kind::Queue => HAMLYN_SRAM_QUEUE,
            Kind::Terminus => HAMLYN_SRAM_TERMINUS,
        }
    }
}

/// The bytes of an open object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    address: u32,
    bytes: u32,
}

impl Place {
    /// Returns the place in the format of the driver's interface.
    pub(super) fn abi(&self) -> HamlynSramPlace {
        HamlynSramPlace { address: self.address, bytes: self.bytes }
    }
}

/// The part of the SRAM behind the directory.
#[derive(Debug)]
pub(super) struct Sram {
    /// Start and end.
    range: (u32, u32),
    /// Free pieces: address and size in bytes. No two pieces touch.
    pieces: BTreeMap<u32, u32>,
}

impl Sram {
    /// Creates an SRAM of `size` bytes, of which the first `directory` are reserved. Both are
    /// multiples of [`HAMLYN_SRAM_UNIT`].
    pub(super) fn new(size: u32, directory: u32) -> Self {
        let mut sram = Self { range: (directory, size), pieces: BTreeMap::new() };
        sram.reset();
        sram
    }

    /// Frees everything.
    pub(super) fn reset(&mut self) {
        let (start, end) = self.range;
        self.pieces = BTreeMap::from([(start, end - start)]);
    }

    /// Returns the number of free bytes.
    pub(super) fn free(&self) -> u32 {
        self.pieces.values().sum()
    }

    /// Returns the size of the longest free piece, in bytes.
    pub(super) fn longest(&self) -> u32 {
        self.pieces.values().copied().max().unwrap_or(0)
    }

    /// Allocates the bytes of an object. Fails if no free piece is large enough.
    pub(super) fn take(&mut self, kind: Kind) -> Result<Place, Refusal> {
        let bytes = kind.bytes();
        debug_assert_eq!(bytes % HAMLYN_SRAM_UNIT, 0);
        let mut fitting = self.pieces.iter().filter(|(_, length)| **length >= bytes);
        let piece = if kind == Kind::Slot { fitting.next() } else { fitting.next_back() };
        let Some((&start, &length)) = piece else {
            return Err(Refusal::new(ULN_STATUS_MEMORY_FULL, bytes, self.free()));
        };
        let left = length - bytes;
        self.pieces.remove(&start);
        let (address, rest) = if kind == Kind::Slot { (start, start + bytes) } else { (start + left, start) };
        if left != 0 {
            self.pieces.insert(rest, left);
        }
        Ok(Place { address, bytes })
    }

    /// Frees the bytes of an object, and joins them with the free pieces on both sides.
    pub(super) fn give(&mut self, place: Place) {
        let Place { mut address, mut bytes } = place;
        if let Some(behind) = self.pieces.remove(&(address + bytes)) {
            bytes += behind;
        }
        if let Some((&before, &length)) = self.pieces.range(..address).next_back() {
            if before + length == address {
                (address, bytes) = (before, length + bytes);
            }
        }
        self.pieces.insert(address, bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u32 = 4096;
    const DIRECTORY: u32 = 192;

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![Just(Kind::Slot), Just(Kind::Queue), Just(Kind::Terminus)]
    }

    /// Returns the bytes of the longest run of units without a place, and of all such units.
    fn unused(places: &[Place]) -> (u32, u32) {
        let unit = HAMLYN_SRAM_UNIT;
        let has = |at: u32, place: &Place| (place.address..place.address + place.bytes).contains(&at);
        let units = (DIRECTORY / unit..SIZE / unit).map(|unit_number| {
            let at = unit_number * unit;
            assert!(places.iter().filter(|place| has(at, place)).count() <= 1, "two at {at}: {places:?}");
            !places.iter().any(|place| has(at, place))
        });
        let (mut longest, mut run, mut all) = (0, 0, 0);
        for free in units {
            run = if free { run + unit } else { 0 };
            all += if free { unit } else { 0 };
            longest = longest.max(run);
        }
        (longest, all)
    }

    proptest! {
        #[test]
        fn places_never_overlap_and_refusals_are_exact(
            steps in proptest::collection::vec((kind(), 0..5_u8, any::<proptest::sample::Index>()), 1..200)
        ) {
            let mut sram = Sram::new(SIZE, DIRECTORY);
            let mut places: Vec<Place> = Vec::new();
            for (kind, what, which) in steps {
                if what == 0 && !places.is_empty() {
                    let place = places.swap_remove(which.index(places.len()));
                    sram.give(place);
                } else {
                    let (longest, free) = unused(&places);
                    match sram.take(kind) {
                        Ok(place) => {
                            prop_assert!(place.address >= DIRECTORY && place.address + place.bytes <= SIZE);
                            places.push(place);
                        }
                        Err(refusal) => {
                            prop_assert!(longest < kind.bytes(), "{longest} bytes in a piece: {kind:?}");
                            let full = ULN_STATUS_MEMORY_FULL;
                            prop_assert_eq!(refusal, Refusal::new(full, kind.bytes(), free));
                        }
                    }
                }
                prop_assert_eq!((sram.longest(), sram.free()), unused(&places));
            }
            for place in places {
                sram.give(place);
            }
            prop_assert_eq!((sram.longest(), sram.free()), (SIZE - DIRECTORY, SIZE - DIRECTORY));
        }
    }

    #[test]
    fn slots_grow_up_and_others_down() {
        let mut sram = Sram::new(SIZE, DIRECTORY);
        let mut at = |kind| sram.take(kind).unwrap().address;
        assert_eq!([at(Kind::Slot), at(Kind::Slot)], [192, 320]);
        assert_eq!([at(Kind::Terminus), at(Kind::Queue)], [4096 - 512, 4096 - 576]);
    }
}
