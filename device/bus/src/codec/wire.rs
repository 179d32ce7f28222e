//! Wire layouts of the vfio-user messages.

use bitflags::bitflags;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Major version of the protocol.
pub const MAJOR: u16 = 0;
/// Minor version of the protocol. Minor versions only add features.
pub const MINOR: u16 = 1;
/// Size in bytes of the header of every message.
pub const HEADER_SIZE: usize = size_of::<Header>();
/// Maximum number of bytes of data in one message (`max_data_xfer_size`).
pub const MAX_DATA: usize = 1 << 20;
/// Maximum number of file descriptors with one message (`max_msg_fds`). QEMU refuses a server that
/// offers more.
pub const MAX_FDS: usize = 16;
/// Maximum number of writes in one `REGION_WRITE_MULTI`. QEMU gathers at most 200.
pub const MAX_WRITES: u64 = 256;
/// Maximum size of a message that is read. A larger one is drained and refused.
pub const MAX_MESSAGE_SIZE: usize = HEADER_SIZE + size_of::<RegionAccess>() + MAX_DATA;

/// Id of the capability that lists a region's mappable areas (`VFIO_REGION_INFO_CAP_SPARSE_MMAP`).
pub(super) const SPARSE_MMAP_CAPABILITY: u16 = 1;

macro_rules! commands {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// The commands of the protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum Command { $($(#[$doc])* $variant = $number,)* }

        impl Command {
            /// All commands.
            pub const ALL: &'static [Command] = &[$(Command::$variant),*];

            /// Returns the command with this number.
            pub fn from_wire(number: u16) -> Option<Command> {
                match number { $($number => Some(Command::$variant),)* _ => None }
            }

            /// Returns the protocol's name of the command, without `VFIO_USER_`.
            pub fn name(self) -> &'static str {
                match self { $(Command::$variant => $name,)* }
            }
        }
    };
}

commands! {
    /// Negotiates a version.
    Version = 1, "VERSION";
    /// Adds guest memory.
    DmaMap = 2, "DMA_MAP";
    /// Removes guest memory.
    DmaUnmap = 3, "DMA_UNMAP";
    /// Counts regions and interrupt types.
    DeviceGetInfo = 4, "DEVICE_GET_INFO";
    /// Describes a region.
    DeviceGetRegionInfo = 5, "DEVICE_GET_REGION_INFO";
    /// File descriptors for parts of a region.
    DeviceGetRegionIoFds = 6, "DEVICE_GET_REGION_IO_FDS";
    /// Describes an interrupt type.
    DeviceGetIrqInfo = 7, "DEVICE_GET_IRQ_INFO";
    /// Sets up interrupts.
    DeviceSetIrqs = 8, "DEVICE_SET_IRQS";
    /// Reads from a region.
    RegionRead = 9, "REGION_READ";
    /// Writes to a region.
    RegionWrite = 10, "REGION_WRITE";
    /// The server reads guest memory: never sent by a client.
    DmaRead = 11, "DMA_READ";
    /// The server writes guest memory: never sent by a client.
    DmaWrite = 12, "DMA_WRITE";
    /// Resets the function.
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
    /// The flags of a header. Bits 0 to 3 are the type of the message: 0 is a command, 1 a reply.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MessageFlags: u32 {
        /// The bits of the type. A command has none of them set.
        const TYPE = 0xf;
        /// A reply.
        const REPLY = 0x1;
        /// The sender of this command does not want a reply.
        const NO_REPLY = 1 << 4;
        /// The command failed; `error` has the reason.
        const ERROR = 1 << 5;
    }
}

/// The 16-byte header of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Chosen by the sender of the command and echoed in the reply.
    pub id: u16,
    /// Number of the [`Command`].
    pub command: u16,
    /// Size of the whole message in bytes, including this header.
    pub size: u32,
    /// [`MessageFlags`].
    pub flags: u32,
    /// An errno, in a reply with [`MessageFlags::ERROR`].
    pub error: u32,
}

impl Header {
    /// Creates the header of a message without a body.
    pub fn new(id: u16, command: u16, flags: MessageFlags) -> Self {
        Header { id, command, size: HEADER_SIZE as u32, flags: flags.bits(), error: 0 }
    }

    /// Returns the flags that the protocol defines.
    pub fn flags(&self) -> MessageFlags {
        MessageFlags::from_bits_truncate(self.flags)
    }

    /// Whether the message is a command, and neither a reply nor of an undefined type.
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
        /// The reply's minor version is at most the request's.
        minor: u16,
    }

    /// Guest memory (`VFIO_USER_DMA_MAP`).
    pub struct DmaMap {
        /// Size of this structure in bytes.
        argsz: u32,
        /// Bit 0: the device may read the memory. Bit 1: the device may write it.
        flags: u32,
        /// Offset of the memory in the file that comes with the message.
        offset: u64,
        /// First address, as the device sees it.
        address: u64,
        /// Size in bytes.
        size: u64,
    }

    /// Removal of guest memory (`VFIO_USER_DMA_UNMAP`).
    pub struct DmaUnmap {
        /// Space for the reply's body.
        argsz: u32,
        /// Bit 1: unmap everything, whatever address and size are.
        flags: u32,
        /// First address.
        address: u64,
        /// Size in bytes.
        size: u64,
    }

    /// Regions and interrupt types (`VFIO_USER_DEVICE_GET_INFO`).
    pub struct DeviceInfo {
        /// Request: space for the reply's body. Reply: size of its body.
        argsz: u32,
        /// Bit 0: the device can be reset. Bit 1: it is a PCI function.
        flags: u32,
        /// Number of regions.
        region_count: u32,
        /// Number of interrupt types.
        irq_count: u32,
    }

    /// One region (`struct vfio_region_info`).
    pub struct RegionInfo {
        /// Request: space for the reply's body. Reply: size of its body with all capabilities.
        argsz: u32,
        /// Bits 0 to 3: readable, writable, mappable, has capabilities.
        flags: u32,
        /// Index of the region.
        index: u32,
        /// Offset of the capabilities in the reply's body, or 0 if there are none.
        capability_offset: u32,
        /// Size of the region in bytes.
        size: u64,
        /// Offset of the region in its file.
        offset: u64,
    }

    /// Header of the mappable areas in a region's reply (`struct
    /// vfio_region_info_cap_sparse_mmap`).
    pub(crate) struct SparseMmapCapability {
        /// Id of the capability.
        id: u16,
        /// Version of the capability.
        version: u16,
        /// Offset of the next capability, or 0 if there is none.
        next: u32,
        /// Number of areas that follow.
        area_count: u32,
        /// Zero.
        reserved: u32,
    }

    /// A mappable area of a region.
    pub struct SparseArea {
        /// Offset from the start of the region.
        offset: u64,
        /// Size in bytes.
        size: u64,
    }

    /// File descriptors of a region (`VFIO_USER_DEVICE_GET_REGION_IO_FDS`).
    pub struct RegionIoFds {
        /// Request: space for the reply's body. Reply: size of its body.
        argsz: u32,
        /// Zero.
        flags: u32,
        /// Index of the region.
        index: u32,
        /// Number of parts that have a file descriptor.
        count: u32,
    }

    /// One interrupt type (`struct vfio_irq_info`).
    pub struct IrqInfo {
        /// Request: space for the reply's body. Reply: size of its body.
        argsz: u32,
        /// Bit 0: signals by eventfd. Bit 1: can be masked.
        flags: u32,
        /// Index of the type.
        index: u32,
        /// Number of interrupts of this type.
        count: u32,
    }

    /// Setup of interrupts (`struct vfio_irq_set`).
    pub struct IrqSet {
        /// Size of this structure and its data in bytes.
        argsz: u32,
        /// One data bit (0 to 2) and one action bit (3 to 5).
        flags: u32,
        /// Index of the type.
        index: u32,
        /// First interrupt.
        start: u32,
        /// Number of interrupts.
        count: u32,
    }

    /// A read from or write to a region.
    pub struct RegionAccess {
        /// Offset from the start of the region.
        offset: u64,
        /// Index of the region.
        region: u32,
        /// Number of bytes.
        count: u32,
    }

    /// One write of `VFIO_USER_REGION_WRITE_MULTI`.
    pub struct WriteOne {
        /// The access, of at most 8 bytes.
        access: RegionAccess,
        /// The bytes.
        data: [u8; 8],
    }
}
