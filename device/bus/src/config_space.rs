//! The function's PCI configuration space: 4096 bytes, of which the guest can change some bits.

use crate::description::{BAR_COUNT, Description, Msix};

/// Size in bytes of the configuration space of a PCI Express function.
pub(crate) const CONFIG_SIZE: usize = 4096;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CACHE_LINE_SIZE: usize = 0x0c;
const BARS: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;

const COMMAND_BUS_MASTER: u16 = 1 << 2;
/// Memory decoding, bus mastering, parity errors, SERR#, no INTx.
const COMMAND_WRITABLE: u16 = 0x0546;
const STATUS_CAPABILITIES: u16 = 1 << 4;

const BAR_64BIT: u64 = 1 << 2;
const BAR_PREFETCHABLE: u64 = 1 << 3;

const EXPRESS: usize = 0x40;
const EXPRESS_ID: u8 = 0x10;
const EXPRESS_SIZE: usize = 0x3c;
/// Capability version 2, endpoint.
const EXPRESS_FLAGS: u16 = 2;
const EXPRESS_DEVICE_CAPABILITIES: usize = EXPRESS + 0x04;
const EXPRESS_DEVICE_CONTROL: usize = EXPRESS + 0x08;
const EXPRESS_LINK_CAPABILITIES: usize = EXPRESS + 0x0c;
const EXPRESS_LINK_STATUS: usize = EXPRESS + 0x12;
const ROLE_BASED_ERRORS: u32 = 1 << 15;
const FUNCTION_LEVEL_RESET_CAPABLE: u32 = 1 << 28;
/// In device control: reads as zero; writing one resets the function.
const INITIATE_FUNCTION_LEVEL_RESET: u16 = 1 << 15;
/// 2.5 GT/s, one lane.
const LINK: u16 = 0x0011;

const MSIX: usize = 0x80;
const MSIX_ID: u8 = 0x11;
const MSIX_CONTROL: usize = MSIX + 2;
const MSIX_FUNCTION_MASK: u16 = 1 << 14;
const MSIX_ENABLE: u16 = 1 << 15;

/// Side effects of a write to configuration space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConfigEffects {
    /// The guest requested a function-level reset.
    pub(crate) function_level_reset: bool,
    /// The guest enabled or disabled bus mastering.
    pub(crate) bus_master_changed: bool,
}

/// Configuration space with a mask of writable bits.
#[derive(Debug)]
pub(crate) struct ConfigSpace {
    bytes: Box<[u8; CONFIG_SIZE]>,
    writable: Box<[u8; CONFIG_SIZE]>,
}

impl ConfigSpace {
    /// Creates the configuration space in its power-on state.
    pub(crate) fn new(description: &Description) -> Self {
        let mut space =
            ConfigSpace { bytes: Box::new([0; CONFIG_SIZE]), writable: Box::new([0; CONFIG_SIZE]) };
        space.set_identity(description);
        for bar in &description.bars {
            let flags = if bar.is_64bit { BAR_64BIT } else { 0 };
            let flags = if bar.prefetchable { flags | BAR_PREFETCHABLE } else { flags };
            space.set_bar(bar.index, bar.size, flags);
        }
        space.set_express(description.msix.is_some());
        if let Some(msix) = &description.msix {
            space.set_bar(msix.bar, msix.bar_size(), 0);
            space.set_msix(msix);
        }
        space
    }

    fn set_identity(&mut self, description: &Description) {
        self.put(0x00, &description.vendor.to_le_bytes());
        self.put(0x02, &description.device.to_le_bytes());
        self.put(0x08, &(description.class << 8 | u32::from(description.revision)).to_le_bytes());
        self.put(SUBSYSTEM, &description.subsystem_vendor.to_le_bytes());
        self.put(SUBSYSTEM + 2, &description.subsystem.to_le_bytes());
        self.put(STATUS, &STATUS_CAPABILITIES.to_le_bytes());
        self.put(CAPABILITIES, &[EXPRESS as u8]);
        self.allow(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        self.allow(CACHE_LINE_SIZE, &[0xff]);
        self.allow(INTERRUPT_LINE, &[0xff]);
    }

    /// The address bits above the size are writable, so after writing all ones the guest reads the
    /// size.
    fn set_bar(&mut self, index: usize, size: u64, flags: u64) {
        debug_assert!(index < BAR_COUNT);
        let register = BARS + 4 * index;
        let mask = !(size - 1);
        self.put(register, &(flags as u32).to_le_bytes());
        if flags & BAR_64BIT == 0 {
            self.allow(register, &(mask as u32).to_le_bytes());
        } else {
            self.allow(register, &mask.to_le_bytes());
        }
    }

    fn set_express(&mut self, more: bool) {
        self.put(EXPRESS, &[EXPRESS_ID, if more { MSIX as u8 } else { 0 }]);
        self.put(EXPRESS + 2, &EXPRESS_FLAGS.to_le_bytes());
        let capabilities = ROLE_BASED_ERRORS | FUNCTION_LEVEL_RESET_CAPABLE;
        self.put(EXPRESS_DEVICE_CAPABILITIES, &capabilities.to_le_bytes());
        self.allow(EXPRESS_DEVICE_CONTROL, &(!INITIATE_FUNCTION_LEVEL_RESET).to_le_bytes());
        self.put(EXPRESS_LINK_CAPABILITIES, &u32::from(LINK).to_le_bytes());
        self.put(EXPRESS_LINK_STATUS, &LINK.to_le_bytes());
        const { assert!(EXPRESS + EXPRESS_SIZE <= MSIX) };
    }

    fn set_msix(&mut self, msix: &Msix) {
        let bar = msix.bar as u32;
        self.put(MSIX, &[MSIX_ID, 0]);
        self.put(MSIX_CONTROL, &(msix.vectors - 1).to_le_bytes());
        self.put(MSIX + 4, &bar.to_le_bytes());
        self.put(MSIX + 8, &(msix.pending_offset() as u32 | bar).to_le_bytes());
        self.allow(MSIX_CONTROL, &(MSIX_FUNCTION_MASK | MSIX_ENABLE).to_le_bytes());
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, offset: usize, bits: &[u8]) {
        self.writable[offset..offset + bits.len()].copy_from_slice(bits);
    }

    fn word(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.bytes[offset], self.bytes[offset + 1]])
    }

    /// Reads bytes. The range must lie inside: the server checks the region's bounds.
    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) {
        data.copy_from_slice(&self.bytes[offset..offset + data.len()]);
    }

    /// Writes bytes. The range must lie inside: the server checks the region's bounds. Bits that
    /// are not writable keep their values.
    pub(crate) fn write(&mut self, offset: usize, data: &[u8]) -> ConfigEffects {
        let bus_master = self.bus_master();
        for (at, new) in (offset..).zip(data) {
            let mask = self.writable[at];
            self.bytes[at] = self.bytes[at] & !mask | new & mask;
        }
        let high_byte = EXPRESS_DEVICE_CONTROL + 1;
        let control = high_byte.checked_sub(offset).and_then(|at| data.get(at)).copied().unwrap_or(0);
        ConfigEffects {
            function_level_reset: u16::from(control) << 8 & INITIATE_FUNCTION_LEVEL_RESET != 0,
            bus_master_changed: bus_master != self.bus_master(),
        }
    }

    /// Whether the function may write memory and interrupt.
    pub(crate) fn bus_master(&self) -> bool {
        self.word(COMMAND) & COMMAND_BUS_MASTER != 0
    }

    /// Whether all interrupts of the function are masked at once.
    pub(crate) fn function_mask(&self) -> bool {
        self.word(MSIX_CONTROL) & MSIX_FUNCTION_MASK != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::{Bar, Widths};

    fn space() -> ConfigSpace {
        let bar = |index, size, is_64bit| Bar {
            index,
            size,
            is_64bit,
            prefetchable: is_64bit,
            areas: vec![],
            widths: Widths::DWORD,
        };
        ConfigSpace::new(&Description {
            vendor: 0x1234,
            device: 0xabcd,
            revision: 3,
            class: 0x02_8001,
            subsystem_vendor: 0x1111,
            subsystem: 0x2222,
            bars: vec![bar(0, 1 << 16, false), bar(2, 1 << 33, true)],
            msix: Some(Msix { bar: 1, vectors: 5 }),
        })
    }

    fn read32(space: &ConfigSpace, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        space.read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn identity_has_pci_layout_and_is_read_only() {
        let mut space = space();
        for _ in 0..2 {
            assert_eq!(read32(&space, 0), 0xabcd_1234);
            assert_eq!(read32(&space, 8), 0x0280_0103);
            assert_eq!(read32(&space, 0x2c), 0x2222_1111);
            space.write(0, &[0xff; 4]);
            space.write(8, &[0xff; 4]);
            space.write(0x2c, &[0xff; 4]);
        }
    }

    #[test]
    fn all_ones_read_back_as_sizes() {
        let mut space = space();
        for bar in 0..6 {
            space.write(0x10 + 4 * bar, &[0xff; 4]);
        }
        let bars: Vec<_> = (0..6).map(|bar| read32(&space, 0x10 + 4 * bar)).collect();
        assert_eq!(bars, [0xffff_0000, 0xffff_e000, 0x0000_000c, 0xffff_fffe, 0, 0]);
        space.write(0x10, &0xfe01_2345_u32.to_le_bytes());
        assert_eq!(read32(&space, 0x10), 0xfe01_0000);
    }

    #[test]
    fn the_capability_list_ends() {
        let space = space();
        let mut at = read32(&space, 0x34) as usize & 0xff;
        let mut ids = vec![];
        while at != 0 {
            let header = read32(&space, at);
            ids.push(header & 0xff);
            at = (header >> 8 & 0xff) as usize;
        }
        assert_eq!(ids, [0x10, 0x11]);
        assert_eq!(read32(&space, MSIX) >> 16, 4);
        assert_eq!(read32(&space, MSIX + 4), 1);
        assert_eq!(read32(&space, MSIX + 8), 4096 | 1);
    }

    #[test]
    fn bus_master_change_is_reported_once() {
        let mut space = space();
        let on = space.write(4, &[0x06, 0]);
        assert!(on.bus_master_changed && space.bus_master());
        assert!(!space.write(4, &[0x06, 0]).bus_master_changed);
        assert!(!space.write(5, &[0xff]).bus_master_changed);
        assert!(space.write(4, &[0x02]).bus_master_changed && !space.bus_master());
    }

    #[test]
    fn function_level_reset_by_any_width() {
        let mut space = space();
        let control = EXPRESS_DEVICE_CONTROL;
        assert!(space.write(control, &[0, 0x80]).function_level_reset);
        assert!(space.write(control + 1, &[0x80]).function_level_reset);
        assert!(space.write(control - 2, &[0, 0, 0, 0x80]).function_level_reset);
        assert!(!space.write(control, &[0xff, 0x7f]).function_level_reset);
        assert!(!space.write(control + 2, &[0xff, 0xff]).function_level_reset);
        assert_eq!(space.word(control), 0x7fff);
    }

    #[test]
    fn only_msix_enable_and_mask_are_writable() {
        let mut space = space();
        assert!(!space.function_mask());
        space.write(MSIX_CONTROL, &[0xff, 0xff]);
        assert_eq!(space.word(MSIX_CONTROL), 0xc004);
        assert!(space.function_mask());
    }
}
