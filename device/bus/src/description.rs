//! A PCI function's description: ids, BARs and interrupts.

use bitflags::bitflags;
use thiserror::Error;

/// Size of a page in bytes. Mapped areas of a BAR are whole pages.
pub const PAGE_SIZE: u64 = 4096;
/// Number of BARs of a function.
pub const BAR_COUNT: usize = 6;
/// Maximum number of MSI-X interrupts.
pub const MAX_VECTORS: u16 = 2048;

/// A PCI function as its configuration space and regions present it.
#[derive(Debug, Clone)]
pub struct Description {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Revision id.
    pub revision: u8,
    /// Class code, 24 bits: class, subclass, programming interface from the highest byte down.
    pub class: u32,
    /// Subsystem vendor id.
    pub subsystem_vendor: u16,
    /// Subsystem id.
    pub subsystem: u16,
    /// The BARs, except for the one of MSI-X.
    pub bars: Vec<Bar>,
    /// Interrupts. If `None`, the function has no interrupts at all (there is no INTx: see
    /// [`crate::Interrupts`]).
    pub msix: Option<Msix>,
}

/// A memory BAR. If no BAR of a function has a mapped area, QEMU posts the writes to that function.
#[derive(Debug, Clone)]
pub struct Bar {
    /// Index, 0 to 5. A 64-bit BAR also uses the next index.
    pub index: usize,
    /// Size in bytes: a power of two, at least a page, and below 2 GiB + 1 if not 64-bit.
    pub size: u64,
    /// Whether the BAR can be placed above 4 GiB.
    pub is_64bit: bool,
    /// Whether reads have no side effects and writes may be merged.
    pub prefetchable: bool,
    /// Parts that the guest maps, ascending and disjoint. Everything else is trapped.
    pub areas: Vec<Area>,
    /// Access widths that the trapped parts support.
    pub widths: Widths,
}

/// A part of a BAR that the guest maps: whole pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Offset from the start of the BAR.
    pub offset: u64,
    /// Size in bytes.
    pub size: u64,
}

/// MSI-X, with a separate BAR that the bus creates and handles. The table comes first, the pending
/// bits in the page after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Msix {
    /// Index of its BAR (32 bits, not prefetchable).
    pub bar: usize,
    /// Number of interrupts, 1 to [`MAX_VECTORS`].
    pub vectors: u16,
}

bitflags! {
    /// Widths of trapped accesses. Each access must be naturally aligned.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Widths: usize {
        /// 1 byte.
        const BYTE = 1;
        /// 2 bytes.
        const WORD = 2;
        /// 4 bytes.
        const DWORD = 4;
        /// 8 bytes.
        const QWORD = 8;
    }
}

impl Widths {
    /// Whether a trapped access may have this many bytes.
    pub(crate) fn accept(self, count: usize) -> bool {
        count.is_power_of_two() && Widths::from_bits(count).is_some_and(|width| self.contains(width))
    }
}

/// Why a function cannot be served as described.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum DescriptionError {
    /// The class has more than 24 bits.
    #[error("class {0:#x} is out of range (limit 0xffffff)")]
    Class(u32),
    /// The BAR does not exist, or a 64-bit BAR lacks its second half.
    #[error("BAR {0} does not exist or has no room for its upper half (limit {last})", last = BAR_COUNT - 1)]
    BarIndex(usize),
    /// Two BARs use the same index.
    #[error("BAR {0} is used twice")]
    BarTwice(usize),
    /// The size is not a power of two, is less than a page, or is more than the BAR's address can
    /// decode.
    #[error(
        "BAR {index} has size {size:#x}: a power of two from a page to 2 GiB, or 2^62 if 64-bit, is wanted"
    )]
    BarSize {
        /// Index of the BAR.
        index: usize,
        /// Size of the BAR.
        size: u64,
    },
    /// The areas are not whole pages, are not ascending, overlap, or exceed the BAR's end.
    #[error("mapped area {offset:#x}+{size:#x} of BAR {index} is not whole ascending pages inside it")]
    Area {
        /// Index of the BAR.
        index: usize,
        /// Offset of the area.
        offset: u64,
        /// Size of the area in bytes.
        size: u64,
    },
    /// There are no interrupts, or too many.
    #[error("{0} MSI-X vectors are out of range (1 to {MAX_VECTORS})")]
    Vectors(u16),
}

impl Description {
    /// Checks that this function can be served.
    pub fn validate(&self) -> Result<(), DescriptionError> {
        if self.class >> 24 != 0 {
            return Err(DescriptionError::Class(self.class));
        }
        let mut used = [false; BAR_COUNT];
        for bar in &self.bars {
            bar.validate()?;
            occupy(&mut used, bar.index)?;
            if bar.is_64bit {
                occupy(&mut used, bar.index + 1)?;
            }
        }
        if let Some(msix) = self.msix {
            if !(1..=MAX_VECTORS).contains(&msix.vectors) {
                return Err(DescriptionError::Vectors(msix.vectors));
            }
            occupy(&mut used, msix.bar)?;
        }
        Ok(())
    }
}

fn occupy(used: &mut [bool; BAR_COUNT], index: usize) -> Result<(), DescriptionError> {
    let slot = used.get_mut(index).ok_or(DescriptionError::BarIndex(index))?;
    if std::mem::replace(slot, true) { Err(DescriptionError::BarTwice(index)) } else { Ok(()) }
}

impl Bar {
    fn validate(&self) -> Result<(), DescriptionError> {
        let largest = if self.is_64bit { 1 << 62 } else { 1 << 31 };
        if !self.size.is_power_of_two() || !(PAGE_SIZE..=largest).contains(&self.size) {
            return Err(DescriptionError::BarSize { index: self.index, size: self.size });
        }
        let mut free = 0;
        for area in &self.areas {
            let whole = area.size > 0 && area.offset % PAGE_SIZE == 0 && area.size % PAGE_SIZE == 0;
            let end = area.offset.checked_add(area.size).filter(|end| *end <= self.size);
            match end {
                Some(end) if whole && area.offset >= free => free = end,
                _ => {
                    let Area { offset, size } = *area;
                    return Err(DescriptionError::Area { index: self.index, offset, size });
                }
            }
        }
        Ok(())
    }
}

impl Msix {
    /// Returns the size of the table in bytes: 16 for each vector.
    pub(crate) fn table_size(&self) -> u64 {
        u64::from(self.vectors) * 16
    }

    /// Returns the offset of the pending bits, which are in the first page after the table.
    pub(crate) fn pending_offset(&self) -> u64 {
        self.table_size().next_multiple_of(PAGE_SIZE)
    }

    /// Returns the size of the BAR in bytes.
    pub(crate) fn bar_size(&self) -> u64 {
        (self.pending_offset() + PAGE_SIZE).next_power_of_two()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(bars: Vec<Bar>, msix: Option<Msix>) -> Description {
        Description {
            vendor: 1,
            device: 2,
            revision: 0,
            class: 0x02_0000,
            subsystem_vendor: 0,
            subsystem: 0,
            bars,
            msix,
        }
    }

    fn bar(index: usize, size: u64) -> Bar {
        Bar { index, size, is_64bit: false, prefetchable: false, areas: vec![], widths: Widths::DWORD }
    }

    #[test]
    fn bars_may_not_collide() {
        let wide = Bar { is_64bit: true, ..bar(0, 4096) };
        assert_eq!(description(vec![wide.clone(), bar(2, 4096)], None).validate(), Ok(()));
        let collision = description(vec![wide.clone(), bar(1, 4096)], None).validate();
        assert_eq!(collision, Err(DescriptionError::BarTwice(1)));
        let msix = Some(Msix { bar: 0, vectors: 1 });
        assert_eq!(description(vec![wide.clone()], msix).validate(), Err(DescriptionError::BarTwice(0)));
        let last = Bar { index: 5, ..wide };
        assert_eq!(description(vec![last], None).validate(), Err(DescriptionError::BarIndex(6)));
    }

    #[test]
    fn sizes_and_areas_are_checked() {
        for size in [0, 16, 4097, 1 << 32] {
            let error = DescriptionError::BarSize { index: 3, size };
            assert_eq!(description(vec![bar(3, size)], None).validate(), Err(error));
        }
        let page = |offset| Area { offset, size: PAGE_SIZE };
        let with_areas = |areas| description(vec![Bar { areas, ..bar(0, 16384) }], None).validate();
        assert_eq!(with_areas(vec![page(0), page(8192)]), Ok(()));
        assert!(with_areas(vec![page(8192), page(0)]).is_err());
        assert!(with_areas(vec![page(0), page(0)]).is_err());
        assert!(with_areas(vec![page(16384)]).is_err());
        assert!(with_areas(vec![page(512)]).is_err());
        assert!(with_areas(vec![Area { offset: u64::MAX - 4095, size: 8192 }]).is_err());
    }

    #[test]
    fn msix_has_room_for_table_and_pending_bits() {
        let size = |vectors| Msix { bar: 0, vectors }.bar_size();
        assert_eq!((size(1), size(256), size(257), size(2048)), (8192, 8192, 16384, 65536));
        for vectors in [0, 2049] {
            let error = DescriptionError::Vectors(vectors);
            assert_eq!(description(vec![], Some(Msix { bar: 0, vectors })).validate(), Err(error));
        }
    }

    #[test]
    fn only_listed_widths_are_accepted() {
        let widths = Widths::DWORD | Widths::QWORD;
        let accepted: Vec<_> = (0..20).filter(|count| widths.accept(*count)).collect();
        assert_eq!(accepted, [4, 8]);
    }
}
