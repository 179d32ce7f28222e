//! Layouts of the vfio-user messages, as they are on the wire.

use bitflags::bitflags;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes of the header that every message begins with.
pub const HEADER_SIZE: usize = size_of::<Header>();
/// Most bytes of data in one message (`max_data_xfer_size`).
pub const MAX_DATA: usize = 1 << 20;
/// Most file descriptors with one message (`max_msg_fds`; QEMU refuses a server that offers more).
pub const MAX_FDS: usize = 16;
/// Most writes in one `REGION_WRITE_MULTI`; QEMU gathers 200 at most.
pub const MAX_WRITES: u64 = 256;
/// The largest message that is read; a larger one is drained and refused.
pub const MAX_MESSAGE_SIZE: usize = HEADER_SIZE + size_of::<RegionAccess>() + MAX_DATA;

/// The id of the capability that lists a region's mappable areas
/// (`VFIO_REGION_INFO_CAP_SPARSE_MMAP`).
pub(super) const SPARSE_MMAP_CAPABILITY: u16 = 1;

macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// The commands of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Command { $($(#[$doc])* $variant = $number,)* }

        impl Command {
            /// Every command.
            pub const ALL: &'static [Command] = &[$(Command::$variant),*];

            /// The command with this number.
            pub fn from_wire(number: u16) -> Option<Command> {
                match number { $($number => Some(Command::$variant),)* _ => None }
            }

            /// The protocol's name for it, without `VFIO_USER_`.
            pub fn name(self) -> &'static str {
                match self { $(Command::$variant => $name,)* }
            }
        }
    };
}

commands! {
    /// Agree on a version.
    Version = 1, "VERSION";
    /// Add guest memory.
    DmaMap = 2, "DMA_MAP";
    /// Remove guest memory.
    DmaUnmap = 3, "DMA_UNMAP";
    /// Count regions and interrupt types.
    DeviceGetInfo = 4, "DEVICE_GET_INFO";
    /// Describe a region.
    DeviceGetRegionInfo = 5, "DEVICE_GET_REGION_INFO";
    /// File descriptors for parts of a region.
    DeviceGetRegionIoFds = 6, "DEVICE_GET_REGION_IO_FDS";
    /// Describe an interrupt type.
    DeviceGetIrqInfo = 7, "DEVICE_GET_IRQ_INFO";
    /// Set up interrupts.
    DeviceSetIrqs = 8, "DEVICE_SET_IRQS";
    /// Read a region.
    RegionRead = 9, "REGION_READ";
    /// Write a region.
    RegionWrite = 10, "REGION_WRITE";
    /// Server reads guest memory: never sent by a client.
    DmaRead = 11, "DMA_READ";
    /// Server writes guest memory: never sent by a client.
    DmaWrite = 12, "DMA_WRITE";
    /// Reset the function.
    DeviceReset = 13, "DEVICE_RESET";
    /// Several writes in one message.
    RegionWriteMulti = 15, "REGION_WRITE_MULTI";
    /// Migration: not supported.
    DeviceFeature = 16, "DEVICE_FEATURE";
    /// Migration: not supported.
    MigrationDataRead = 17, "MIG_DATA_READ";
    /// Migration: not supported.
    MigrationDataWrite = 18, "MIG_DATA_WRITE";
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

bitflags! {
    /// The flags of a header. Bits 0 to 3 are the message's type: 0 a command, 1 a reply.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MessageFlags: u32 {
        /// The type's bits; with none of them set it is a command.
        const TYPE = 0xf;
        /// A reply.
        const REPLY = 0x1;
        /// The sender of this command wants no reply.
        const NO_REPLY = 1 << 4;
        /// This reply says that the command failed; `error` says why.
        const ERROR = 1 << 5;
    }
}

/// The 16 bytes that begin every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Chosen by the sender of the command, echoed in the reply.
    pub id: u16,
    /// A [`Command`]'s number.
    pub command: u16,
    /// Bytes of the whole message, this header included.
    pub size: u32,
    /// [`MessageFlags`].
    pub flags: u32,
    /// An errno, in a reply with [`MessageFlags::ERROR`].
    pub error: u32,
}

impl Header {
    /// A header of a message without a body.
    pub fn new(id: u16, command: u16, flags: MessageFlags) -> Self {
        Header { id, command, size: HEADER_SIZE as u32, flags: flags.bits(), error: 0 }
    }

    /// The flags that the protocol knows.
    pub fn flags(&self) -> MessageFlags {
        MessageFlags::from_bits_truncate(self.flags)
    }

    /// Is it a command (and not a reply, nor of a type that does not exist)?
    pub fn is_command(&self) -> bool {
        self.flags & MessageFlags::TYPE.bits() == 0
    }
}

macro_rules! layout {
    ($($(#[$doc:meta])* $vis:vis struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        $vis struct $name { $($(#[$field_doc])* $vis $field: $type,)* }
    )*};
}

layout! {
    /// Protocol version.
    pub struct VersionNumbers {
        /// Must be equal on both sides.
        major: u16,
        /// The reply's is at most the request's.
        minor: u16,
    }

    /// Guest memory (`VFIO_USER_DMA_MAP`).
    pub struct DmaMap {
        /// Bytes of this structure.
        argsz: u32,
        /// Bit 0: the device may read it; bit 1: the device may write it.
        flags: u32,
        /// Where in the file that comes with the message it begins.
        offset: u64,
        /// Its first address as the device sees it.
        address: u64,
        /// Its bytes.
        size: u64,
    }

    /// Guest memory no more (`VFIO_USER_DMA_UNMAP`).
    pub struct DmaUnmap {
        /// Room for the reply's body.
        argsz: u32,
        /// Bit 1: everything, whatever address and size say.
        flags: u32,
        /// First address.
        address: u64,
        /// Bytes.
        size: u64,
    }

    /// Regions and interrupt types (`VFIO_USER_DEVICE_GET_INFO`).
    pub struct DeviceInfo {
        /// Request: room for the reply's body. Reply: bytes that it takes.
        argsz: u32,
        /// Bit 0: can be reset; bit 1: is a PCI function.
        flags: u32,
        /// Regions.
        region_count: u32,
        /// Interrupt types.
        irq_count: u32,
    }

    /// One region (`struct vfio_region_info`).
    pub struct RegionInfo {
        /// Request: room for the reply's body. Reply: bytes that it takes with all its
        /// capabilities.
        argsz: u32,
        /// Bits 0 to 3: readable, writable, mappable, has capabilities.
        flags: u32,
        /// Which region.
        index: u32,
        /// Where in the reply's body the capabilities begin; 0 for none.
        capability_offset: u32,
        /// Bytes of the region.
        size: u64,
        /// Where in the region's file it begins.
        offset: u64,
    }

    /// What precedes the mappable areas in a region's reply (`struct
    /// vfio_region_info_cap_sparse_mmap`).
    pub(crate) struct SparseMmapCapability {
        /// Which capability.
        id: u16,
        /// Of the capability.
        version: u16,
        /// Where the next one begins; 0 for none.
        next: u32,
        /// Areas that follow.
        area_count: u32,
        /// Zero.
        reserved: u32,
    }

    /// A mappable area of a region.
    pub struct SparseArea {
        /// From the region's beginning.
        offset: u64,
        /// Bytes.
        size: u64,
    }

    /// File descriptors of a region (`VFIO_USER_DEVICE_GET_REGION_IO_FDS`).
    pub struct RegionIoFds {
        /// Request: room for the reply's body. Reply: bytes that it takes.
        argsz: u32,
        /// Zero.
        flags: u32,
        /// Which region.
        index: u32,
        /// Parts that have a file descriptor.
        count: u32,
    }

    /// One interrupt type (`struct vfio_irq_info`).
    pub struct IrqInfo {
        /// Request: room for the reply's body. Reply: bytes that it takes.
        argsz: u32,
        /// Bit 0: signals by eventfd; bit 1: can be masked.
        flags: u32,
        /// Which type.
        index: u32,
        /// Interrupts of it.
        count: u32,
    }

    /// Set up interrupts (`struct vfio_irq_set`).
    pub struct IrqSet {
        /// Bytes of this structure and its data.
        argsz: u32,
        /// One data bit (0 to 2) and one action bit (3 to 5).
        flags: u32,
        /// Which type.
        index: u32,
        /// First interrupt.
        start: u32,
        /// Interrupts.
        count: u32,
    }

    /// Read or write a region.
    pub struct RegionAccess {
        /// From the region's beginning.
        offset: u64,
        /// Which region.
        region: u32,
        /// Bytes.
        count: u32,
    }

    /// One write of `VFIO_USER_REGION_WRITE_MULTI`.
    pub struct WriteOne {
        /// Where, and how many of the bytes (at most 8).
        access: RegionAccess,
        /// The bytes.
        data: [u8; 8],
    }
}
