//! Endpoints, and where their bytes are (section 3): found by the TLB, or in pinned memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hamlyn_abi::dart::command::{DART_ENDPOINT_PINNED, DartOpenEndpoint};
use hamlyn_abi::family::command::{ULN_STATUS_BAD_ADDRESS, ULN_STATUS_BAD_LENGTH, ULN_STATUS_BAD_VALUE};
use hamlyn_card::chassis::area::Area;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::ports::{Dma, DmaFault};
use zerocopy::{FromZeros, IntoBytes};

use crate::tlb::{Frame, Page, Tlb};

/// Size of a page, in bytes.
pub(crate) const PAGE: u64 = 4096;

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    memory: Memory,
    /// Number of connections that name it.
    pub(crate) connections: u32,
}

#[derive(Debug)]
enum Memory {
    Virtual { base: u64, length: u64, space: u32 },
    Pinned(Area),
}

/// Bytes that are contiguous on the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) length: usize,
}

/// Pages that a message needs and the TLB does not have.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    /// Pages that the driver has been asked for, and whether they will be written to.
    pub(crate) missing: BTreeMap<u64, bool>,
    /// Frames that the driver has named since the message arrived, for this message alone.
    frames: BTreeMap<u64, Option<Frame>>,
}

/// Why bytes of an endpoint cannot be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Pages are missing. This many of them had not been requested before.
    Missing(u64),
    /// There is no such memory.
    NoMemory,
}

impl From<DmaFault> for Absent {
    fn from(_: DmaFault) -> Self {
        Absent::NoMemory
    }
}

impl Wait {
    /// Clears everything, because the message is done.
    pub(crate) fn clear(&mut self) {
        self.missing.clear();
        self.frames.clear();
    }

    /// Handles the driver's answer for a page. `None` means that the page is nowhere. Returns
    /// `true` if the page was waited for.
    pub(crate) fn fill(&mut self, number: u64, frame: Option<Frame>) -> bool {
        let Some(&writes) = self.missing.get(&number) else { return false };
        let serves = frame.is_none_or(|frame| frame.writable || !writes);
        if serves {
            self.missing.remove(&number);
            self.frames.insert(number, frame);
        }
        serves
    }

    /// Drops all pages but these, because the others are not needed.
    pub(crate) fn keep(&mut self, numbers: &Range<u64>) {
        self.missing.retain(|number, _| numbers.contains(number));
        self.frames.retain(|number, _| numbers.contains(number));
    }

    /// Drops the driver's answers for these pages, because they are outdated.
    pub(crate) fn invalidate(&mut self, numbers: &Range<u64>) {
        self.frames.retain(|number, _| !numbers.contains(number));
    }

    fn frame(&self, number: u64, writes: bool) -> Option<Option<u64>> {
        let frame = self.frames.get(&number)?;
        let serves = frame.is_none_or(|frame| frame.writable || !writes);
        serves.then(|| frame.map(|frame| frame.address))
    }
}

impl Endpoint {
    pub(crate) fn open(body: &DartOpenEndpoint) -> Result<Self, Refusal> {
        let memory = match body.flags {
            DART_ENDPOINT_PINNED => {
                Refusal::unless_zero(body.base | body.length | u64::from(body.space))?;
                let area = Area::check(&body.area)?;
                if !area.is_aligned(4) {
                    return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.area.first, 4_u32));
                }
                Memory::Pinned(area)
            }
            0 => {
                if body.area.as_bytes() != hamlyn_abi::family::area::UlnArea::new_zeroed().as_bytes() {
                    return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.area.length, 0_u32));
                }
                if body.base % 4 != 0 {
                    return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.base, 4_u32));
                }
                if body.length == 0 || body.base.checked_add(body.length).is_none() {
                    return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.length, u64::MAX - body.base));
                }
                Memory::Virtual { base: body.base, length: body.length, space: body.space }
            }
            flags => return Err(Refusal::new(ULN_STATUS_BAD_VALUE, flags, DART_ENDPOINT_PINNED)),
        };
        Ok(Self { memory, connections: 0 })
    }

    /// Returns whether all of these bytes are inside.
    pub(crate) fn contains(&self, offset: u64, length: u64) -> bool {
        let bound = match &self.memory {
            Memory::Virtual { length, .. } => *length,
            Memory::Pinned(area) => area.length(),
        };
        offset.checked_add(length).is_some_and(|end| end <= bound)
    }

    /// Returns the address space of virtual memory, or `None` for pinned memory.
    pub(crate) fn space(&self) -> Option<u32> {
        match self.memory {
            Memory::Virtual { space, .. } => Some(space),
            Memory::Pinned(_) => None,
        }
    }

    /// Returns the pages of these bytes, all of which are inside. There are none for pinned memory.
    pub(crate) fn pages(&self, bytes: &Range<u64>) -> Range<u64> {
        match self.memory {
            Memory::Virtual { base, .. } if !bytes.is_empty() => {
                (base + bytes.start) / PAGE..(base + bytes.end - 1) / PAGE + 1
            }
            _ => 0..0,
        }
    }

    /// Returns where these bytes are, in the order of their addresses. All of them are inside.
    /// `writes` means that they will be written to, not read.
    pub(crate) fn find(
        &self,
        dma: &dyn Dma,
        tlb: &mut Tlb,
        wait: &mut Wait,
        bytes: Range<u64>,
        writes: bool,
    ) -> Result<Vec<Piece>, Absent> {
        let (mut pieces, mut lacking) = (Vec::new(), BTreeSet::new());
        let mut next = bytes.start;
        while next < bytes.end {
            let (first, address) = match &self.memory {
                Memory::Pinned(area) => {
                    let address = area.locate(dma, next)?;
                    (address % PAGE, Some(address))
                }
                Memory::Virtual { base, space, .. } => {
                    let place = base + next;
                    let page = Page { space: *space, number: place / PAGE };
                    let told = wait.frame(page.number, writes);
                    let frame = told.unwrap_or_else(|| tlb.look_up(page, writes));
                    if told == Some(None) {
                        return Err(Absent::NoMemory);
                    }
                    if frame.is_none() {
                        lacking.insert(page.number);
                    }
                    (place % PAGE, frame.map(|frame| frame + place % PAGE))
                }
            };
            let length = (PAGE - first).min(bytes.end - next);
            pieces.extend(address.map(|address| Piece { address, length: length as usize }));
            next += length;
        }
        if lacking.is_empty() {
            return Ok(pieces);
        }
        let before = wait.missing.len();
        wait.missing.extend(lacking.into_iter().map(|number| (number, writes)));
        Err(Absent::Missing((wait.missing.len() - before) as u64))
    }
}
