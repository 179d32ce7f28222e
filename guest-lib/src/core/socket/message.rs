//! Layouts of the vfio-user messages that the driver's part needs. Little-endian, as in the
//! protocol's specification.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `Header::command`.
pub(crate) const VERSION: u16 = 1;
pub(crate) const DMA_MAP: u16 = 2;
pub(crate) const DMA_UNMAP: u16 = 3;
pub(crate) const DEVICE_GET_REGION_INFO: u16 = 5;
pub(crate) const DEVICE_SET_IRQS: u16 = 8;
pub(crate) const REGION_READ: u16 = 9;
pub(crate) const REGION_WRITE: u16 = 10;

/// `Header::flags`: mask of the message type.
pub(crate) const FLAGS_TYPE: u32 = 0xf;
/// `Header::flags`: a reply.
pub(crate) const FLAGS_REPLY: u32 = 1;
/// `Header::flags`: a command without a reply.
pub(crate) const FLAGS_NO_REPLY: u32 = 1 << 4;
/// `Header::flags`: a reply that carries an error.
pub(crate) const FLAGS_ERROR: u32 = 1 << 5;

/// `DmaMap::flags`: the card may read and write.
pub(crate) const DMA_READ_WRITE: u32 = 3;
/// `SetIrqs::flags`: eventfds are attached, which the card triggers.
pub(crate) const IRQS_EVENTFD_TRIGGER: u32 = 1 << 2 | 1 << 5;
/// `SetIrqs::index`: MSI-X.
pub(crate) const IRQS_MSIX: u32 = 2;

/// Indices of regions.
pub(crate) const REGION_BAR0: u32 = 0;
pub(crate) const REGION_BAR2: u32 = 2;
pub(crate) const REGION_BAR4: u32 = 4;
pub(crate) const REGION_CONFIG: u32 = 7;

/// Header of every message.
#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Header {
    pub(crate) id: u16,
    pub(crate) command: u16,
    pub(crate) size: u32,
    pub(crate) flags: u32,
    pub(crate) error: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) major: u16,
    pub(crate) minor: u16,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaMap {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct DmaUnmap {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

#[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegionInfo {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) cap_offset: u32,
    pub(crate) size: u64,
    pub(crate) offset: u64,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct RegionAccess {
    pub(crate) offset: u64,
    pub(crate) region: u32,
    pub(crate) count: u32,
}

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(crate) struct SetIrqs {
    pub(crate) argsz: u32,
    pub(crate) flags: u32,
    pub(crate) index: u32,
    pub(crate) start: u32,
    pub(crate) count: u32,
}
