//! The vfio-user messages that a driver's part needs, laid out. Little-endian, as the protocol's specification.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Commands.
pub(super) const VERSION: u16 = 1;
pub(super) const DMA_MAP: u16 = 2;
pub(super) const DMA_UNMAP: u16 = 3;
pub(super) const DEVICE_GET_REGION_INFO: u16 = 5;
pub(super) const DEVICE_SET_IRQS: u16 = 8;
pub(super) const REGION_READ: u16 = 9;
pub(super) const REGION_WRITE: u16 = 10;

/// `Header::flags`: what kind of message it is.
pub(super) const FLAGS_TYPE: u32 = 0xf;
/// `Header::flags`: a reply.
pub(super) const FLAGS_REPLY: u32 = 1;
/// `Header::flags`: a command whose sender wants no reply.
pub(super) const FLAGS_NO_REPLY: u32 = 1 << 4;
/// `Header::flags`: a reply that carries an error.
pub(super) const FLAGS_ERROR: u32 = 1 << 5;

/// `DmaMap::flags`: the card may read and write.
pub(super) const DMA_READ_WRITE: u32 = 3;
/// `SetIrqs::flags`: file descriptors come along, to be triggered.
pub(super) const IRQS_EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// `SetIrqs::index`: MSI-X.
pub(super) const IRQS_MSIX: u32 = 2;

/// Regions.
pub(super) const REGION_BAR0: u32 = 0;
pub(super) const REGION_BAR2: u32 = 2;
pub(super) const REGION_BAR4: u32 = 4;
pub(super) const REGION_CONFIG: u32 = 7;

/// Head of every message.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    pub(super) id: u16,
    pub(super) command: u16,
    pub(super) size: u32,
    pub(super) flags: u32,
    pub(super) error: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Version {
    pub(super) major: u16,
    pub(super) minor: u16,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DmaMap {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) size: u64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct DmaUnmap {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) address: u64,
    pub(super) size: u64,
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RegionInfo {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) cap_offset: u32,
    pub(super) size: u64,
    pub(super) offset: u64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RegionAccess {
    pub(super) offset: u64,
    pub(super) region: u32,
    pub(super) count: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct SetIrqs {
    pub(super) argsz: u32,
    pub(super) flags: u32,
    pub(super) index: u32,
    pub(super) start: u32,
    pub(super) count: u32,
}
