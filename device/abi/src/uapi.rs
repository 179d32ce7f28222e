//! The contract between driver and library: the ioctls of `/dev/hamlynN`.
//!
//! One open file is one protection domain: what it creates belongs to it alone and goes when it is closed or its
//! process dies. Every structure has reserved fields; they must be zero going in (`EINVAL` otherwise) and come out
//! zero. A request code that the driver does not know is answered `ENOTTY`; the library asks
//! [`HamlynQuery::capabilities`] before it uses anything newer than version 2.
//!
//! Errors all calls share: `EFAULT` (the structure cannot be read or written), `EINVAL` (a field that means nothing),
//! `ENODEV` (the card is gone or does not answer), `ENOSPC` (the card's table is full), `ENOENT` (not an object of
//! this file), `ENOMEM` (also: what the caller's user has pinned would pass the caller's `RLIMIT_MEMLOCK`),
//! `EOPNOTSUPP` (the memory cannot be shared with the card: the machine would have to copy it), `EDQUOT` (the user who
//! opened the file holds as much of the card as one user may: [`HamlynShareQuery`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Version of this contract: major in the upper half, minor in the lower.
pub const HAMLYN_UAPI_VERSION: u32 = 0x0002_0000;

/// What `_IOWR('H', number, T)` is in C: the code of a call whose argument, a `T`, goes both ways.
const fn iowr<T>(number: u32) -> u32 {
    0xc000_0000 | (size_of::<T>() as u32) << 16 | (b'H' as u32) << 8 | number
}

/// Describes the card. Argument: [`HamlynQuery`].
pub const HAMLYN_IOC_QUERY: u32 = iowr::<HamlynQuery>(1);
/// Creates a send terminus. Argument: [`HamlynTerminusCreate`].
pub const HAMLYN_IOC_TERMINUS_CREATE: u32 = iowr::<HamlynTerminusCreate>(2);
/// Destroys a send terminus. Argument: [`HamlynObject`]. Its mappings stay, and read and write nothing that matters.
pub const HAMLYN_IOC_TERMINUS_DESTROY: u32 = iowr::<HamlynObject>(3);
/// Names a piece of the caller's memory as a send buffer. Argument: [`HamlynSendBuffer`].
pub const HAMLYN_IOC_SEND_BUFFER_SET: u32 = iowr::<HamlynSendBuffer>(4);
/// Takes a send buffer back. Argument: [`HamlynSendBuffer`] (`terminus` and `tag` are read, the rest is zero).
pub const HAMLYN_IOC_SEND_BUFFER_CLEAR: u32 = iowr::<HamlynSendBuffer>(5);
/// Creates a notification queue. Argument: [`HamlynQueueCreate`].
pub const HAMLYN_IOC_QUEUE_CREATE: u32 = iowr::<HamlynQueueCreate>(6);
/// Destroys a notification queue (`EBUSY` while a slot names it). Argument: [`HamlynObject`].
pub const HAMLYN_IOC_QUEUE_DESTROY: u32 = iowr::<HamlynObject>(7);
/// Sleeps until a notification is there. Argument: [`HamlynQueueWait`]. `ETIMEDOUT`; `EINTR` if a signal's handler has
/// run, and of a wait with a time-out also if the process was stopped or the machine suspended.
pub const HAMLYN_IOC_QUEUE_WAIT: u32 = iowr::<HamlynQueueWait>(8);
/// Makes `poll(2)` of the file report readable once a notification is there, at one position of each queue: whoever arms
/// it again, from any thread or process that shares the file, moves it. Argument: [`HamlynQueueWait`].
pub const HAMLYN_IOC_QUEUE_ARM: u32 = iowr::<HamlynQueueWait>(9);
/// Creates a slot over pieces of the caller's memory. Argument: [`HamlynSlotCreate`].
pub const HAMLYN_IOC_SLOT_CREATE: u32 = iowr::<HamlynSlotCreate>(10);
/// Destroys a slot. When the call returns nothing more is deposited in its memory. Argument: [`HamlynObject`].
pub const HAMLYN_IOC_SLOT_DESTROY: u32 = iowr::<HamlynObject>(11);
/// Reads the card's counters. Argument: [`HamlynStatistics`].
pub const HAMLYN_IOC_STATISTICS: u32 = iowr::<HamlynStatistics>(12);
/// Runs the card's self-tests (`EPERM` without `CAP_SYS_ADMIN`). Argument: [`HamlynSelfTest`].
pub const HAMLYN_IOC_SELF_TEST: u32 = iowr::<HamlynSelfTest>(13);

/// Takes a name, under which processes of any host may connect: answers a listener, a file of its own. Argument:
/// [`HamlynListen`]. `EADDRINUSE`; `EOPNOTSUPP` without [`HAMLYN_CAPABILITY_CONNECTIONS`].
pub const HAMLYN_IOC_LISTEN: u32 = iowr::<HamlynListen>(14);
/// Asks for a connection: answers it, a file of its own, at once. Argument: [`HamlynConnect`]. `EHOSTUNREACH` for a host
/// id that cannot be reached; `EOPNOTSUPP` without [`HAMLYN_CAPABILITY_CONNECTIONS`].
pub const HAMLYN_IOC_CONNECT: u32 = iowr::<HamlynConnect>(15);
/// On a listener: answers the next connection that is asked for, a file of its own. Argument: [`HamlynObject`], zero.
/// `EAGAIN` if there is none.
pub const HAMLYN_IOC_NEXT_REQUEST: u32 = iowr::<HamlynObject>(16);
/// On a connection: how it stands. Argument: [`HamlynConnectionState`].
pub const HAMLYN_IOC_CONNECTION_QUERY: u32 = iowr::<HamlynConnectionState>(17);
/// On a connection that was asked for: accepts it. Argument: [`HamlynPrivate`]. `ENOTCONN`: it has ended.
pub const HAMLYN_IOC_ACCEPT: u32 = iowr::<HamlynPrivate>(18);
/// On a connection that was asked for: rejects it. Argument: [`HamlynPrivate`]. `ENOTCONN`: it has ended.
pub const HAMLYN_IOC_REJECT: u32 = iowr::<HamlynPrivate>(19);
/// On a connection: ends it gracefully (section 6.4). Argument: [`HamlynPrivate`]. `ENOTCONN`: it has ended.
pub const HAMLYN_IOC_CLOSE: u32 = iowr::<HamlynPrivate>(20);

/// How much of the card the user who opened the file holds, and may hold. Argument: [`HamlynShareQuery`].
pub const HAMLYN_IOC_SHARE: u32 = iowr::<HamlynShareQuery>(21);

/// Sleeps until the card has finished with requests of a terminus (section 2.3's sequence number). Argument:
/// [`HamlynTerminusWait`]. `ETIMEDOUT`, `EINTR` as for [`HAMLYN_IOC_QUEUE_WAIT`].
pub const HAMLYN_IOC_TERMINUS_WAIT: u32 = iowr::<HamlynTerminusWait>(22);
/// Makes `poll(2)` of the file report readable once the card has finished with requests of a terminus; one sequence number
/// of each terminus: whoever arms it again moves it. Argument: [`HamlynTerminusWait`].
pub const HAMLYN_IOC_TERMINUS_ARM: u32 = iowr::<HamlynTerminusWait>(23);

/// Asks whether anybody listens under a name: answers the question at once, a file of its own, which stands and is polled as a
/// connection's does, and ends with the answer: [`HAMLYN_END_LISTENING`], [`HAMLYN_END_NOBODY`], or why there is none
/// ([`HAMLYN_END_NO_NAME`]: that host's driver is too old to know questions). Argument: [`HamlynConnect`] without private
/// data. Errors as for [`HAMLYN_IOC_CONNECT`]; `ENOTTY` without [`HAMLYN_CAPABILITY_QUESTIONS`].
pub const HAMLYN_IOC_ASK: u32 = iowr::<HamlynConnect>(24);

/// `HamlynQuery::capabilities`: listen and connect.
pub const HAMLYN_CAPABILITY_CONNECTIONS: u64 = 1;
/// `HamlynQuery::capabilities`: shares of users.
pub const HAMLYN_CAPABILITY_SHARES: u64 = 2;
/// `HamlynQuery::capabilities`: to sleep until requests are finished.
pub const HAMLYN_CAPABILITY_COMPLETIONS: u64 = 4;
/// `HamlynQuery::capabilities`: to ask whether a name is listened to.
pub const HAMLYN_CAPABILITY_QUESTIONS: u64 = 8;

/// Index into [`HamlynShareQuery`]: send termini.
pub const HAMLYN_SHARE_TERMINI: u32 = 0;
/// Index into [`HamlynShareQuery`]: slots.
pub const HAMLYN_SHARE_SLOTS: u32 = 1;
/// Index into [`HamlynShareQuery`]: notification queues.
pub const HAMLYN_SHARE_QUEUES: u32 = 2;
/// Index into [`HamlynShareQuery`]: connections that have not ended, and listeners.
pub const HAMLYN_SHARE_CONNECTIONS: u32 = 3;

/// The longest name of a listener, in bytes.
pub const HAMLYN_MAX_NAME: u32 = 64;
/// The most private data that a request, its answer or a close carries, in bytes.
pub const HAMLYN_MAX_PRIVATE: u32 = 256;
/// The longest backlog of a listener.
pub const HAMLYN_MAX_BACKLOG: u32 = 1024;

/// Connections and listeners that a card's driver has room for.
pub const HAMLYN_MAX_CONNECTIONS: u32 = 16384;

/// State of a connection: asked for by this side; the other has not answered.
pub const HAMLYN_CONNECTION_CONNECTING: u32 = 1;
/// State of a connection: asked for by the other side; this one has not answered.
pub const HAMLYN_CONNECTION_REQUESTED: u32 = 2;
/// State of a connection: accepted.
pub const HAMLYN_CONNECTION_ESTABLISHED: u32 = 3;
/// State of a connection: over.
pub const HAMLYN_CONNECTION_ENDED: u32 = 4;

/// Why a connection ended: the peer closed it gracefully.
pub const HAMLYN_END_CLOSED: u32 = 1;
/// Why a connection ended: the peer's process died, or let go of it without closing it.
pub const HAMLYN_END_DIED: u32 = 2;
/// Why a connection ended: the peer's host gives no sign of life.
pub const HAMLYN_END_HOST_LOST: u32 = 3;
/// Why a connection ended: the peer's host, or its card, has started anew or stood still, and lost it.
pub const HAMLYN_END_HOST_RESET: u32 = 4;
/// Why a connection ended: this host's link went down.
pub const HAMLYN_END_LINK_LOST: u32 = 5;
/// Why a connection ended: this host stood still, and its card discarded what arrived (section 2.8).
pub const HAMLYN_END_LAPSED: u32 = 6;
/// Why a connection ended: this host's card was reset, removed, or failed.
pub const HAMLYN_END_CARD_RESET: u32 = 7;
/// Why a connection was refused: nobody listens under that name.
pub const HAMLYN_END_NO_NAME: u32 = 8;
/// Why a connection was refused: the listener's backlog is full.
pub const HAMLYN_END_BACKLOG: u32 = 9;
/// Why a connection was refused: the listener rejected it.
pub const HAMLYN_END_REJECTED: u32 = 10;
/// How a question ended: somebody listens under that name.
pub const HAMLYN_END_LISTENING: u32 = 11;
/// How a question ended: nobody listens under that name.
pub const HAMLYN_END_NOBODY: u32 = 12;

/// `HamlynQueueWait::timeout_ns`: no time-out.
pub const HAMLYN_WAIT_FOREVER: i64 = -1;

/// What the card is and how much of everything it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQuery {
    /// Out: [`HAMLYN_UAPI_VERSION`] of the driver.
    pub uapi_version: u32,
    /// Out: `HAMLYN_ABI_VERSION` of the card.
    pub abi_version: u32,
    /// Out: which card (`HAMLYN_MODEL_*`).
    pub model: u32,
    /// Out: the card's host id, or `HAMLYN_NO_HOST` while its link is down.
    pub host: u32,
    /// Out: additions to version 2 that the driver and card have: `HAMLYN_CAPABILITY_*` bits.
    pub capabilities: u64,
    /// Out: the most user data in a packet, in bytes.
    pub packet_size: u32,
    /// Out: the card's SRAM, in bytes.
    pub sram_size: u32,
    /// Out: send termini of the card that processes may have.
    pub termini: u32,
    /// Out: slots of the card that processes may have.
    pub slots: u32,
    /// Out: notification queues of the card that processes may have.
    pub queues: u32,
    /// Out: interrupt vectors in use.
    pub vectors: u32,
    /// Out: ports of the switch, which host ids are below. 0: not known, or the link is down.
    pub ports: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved: [u64; 9],
}

/// Names an object of the file: terminus, queue or slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynObject {
    /// In: its number.
    pub index: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
}

/// A new send terminus and where to map its parts with `mmap(2)` of the same file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusCreate {
    /// Out: its number.
    pub terminus: u32,
    /// In: its share of the link beside other busy termini, 1 to `HAMLYN_MAX_WEIGHT`, or 0 for 1. `EPERM` for more than 1
    /// without `CAP_SYS_NICE`.
    pub weight: u32,
    /// Out: offset of the window, `HAMLYN_WINDOW_SIZE` bytes, to be mapped readable and writable, shared.
    pub window_offset: u64,
    /// Out: offset of the doorbell page, `HAMLYN_DOORBELL_SIZE` bytes, to be mapped writable, shared.
    pub doorbell_offset: u64,
    /// Out: offset of the page that starts with the status words, 4,096 bytes, to be mapped read-only.
    pub status_offset: u64,
    /// Zero.
    pub reserved: [u64; 4],
}

/// A send buffer of a terminus.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSendBuffer {
    /// In: the terminus.
    pub terminus: u32,
    /// In: the tag, 0 to 7. `EBUSY` if it is set already.
    pub tag: u32,
    /// In: start of the memory, in the caller's address space.
    pub address: u64,
    /// In: bytes, 1 to 1 GiB. The pages are pinned, and counted against `RLIMIT_MEMLOCK`.
    pub length: u64,
    /// Zero.
    pub reserved: u64,
}

/// A new notification queue, made of the driver's own memory (counted against `RLIMIT_MEMLOCK`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueCreate {
    /// In: entries, 2 to 65,536.
    pub entries: u32,
    /// Out: its number.
    pub queue: u32,
    /// Out: offset to map it at, read-only.
    pub offset: u64,
    /// Out: bytes to map.
    pub size: u64,
    /// Zero.
    pub reserved: u64,
}

/// Which notification to wait for: the one at the caller's cursor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynQueueWait {
    /// In: the queue.
    pub queue: u32,
    /// In: the caller's cursor: an entry's index.
    pub cursor: u32,
    /// In: the caller's pass over the queue, from 0, modulo 2^30. The wait is over when that pass' entry is there, or was
    /// overwritten by a later pass'.
    pub pass: u32,
    /// Out, for arm: 1 if the wait is over already, 0 if the queue was armed.
    pub ready: u32,
    /// In, for wait: nanoseconds, 0 to look only, or [`HAMLYN_WAIT_FOREVER`]. For arm: zero.
    pub timeout_ns: i64,
    /// Zero.
    pub reserved: u64,
}

/// Which requests of a terminus to wait for: those before a sequence number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynTerminusWait {
    /// In: the terminus.
    pub terminus: u32,
    /// In: the wait is over once the status words' `completed` has reached this, modulo 2^32.
    pub completed: u32,
    /// Out, for arm: 1 if the wait is over already, 0 if the terminus was armed.
    pub ready: u32,
    /// Zero.
    pub reserved0: u32,
    /// In, for wait: nanoseconds, 0 to look only, or [`HAMLYN_WAIT_FOREVER`]. For arm: zero.
    pub timeout_ns: i64,
    /// Zero.
    pub reserved1: u64,
}

/// A new slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSlotCreate {
    /// In: start of the message area in the caller's address space; any alignment.
    pub area_address: u64,
    /// In: its bytes, 1 to 1 GiB less the offset in its first page.
    pub area_length: u64,
    /// In: start of the metadata area, a multiple of 128; zero if there is none.
    pub metadata_address: u64,
    /// In: entries of the metadata area, of 128 bytes each; zero if there is none.
    pub metadata_entries: u32,
    /// In: `HAMLYN_MODE_*`.
    pub mode: u32,
    /// In: a queue of this file, or `HAMLYN_NO_QUEUE`.
    pub queue: u32,
    /// In: the caller's number for the slot, for its notifications.
    pub notification_index: u32,
    /// In: `HAMLYN_SLOT_*` bits.
    pub flags: u32,
    /// Out: the slot's number on this host.
    pub slot: u32,
    /// Out: its protection key, from the kernel's random source.
    pub key: u64,
    /// Zero.
    pub reserved: [u64; 5],
}

/// The card's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynStatistics {
    /// Out: how many of `values` the card has.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
    /// Out: the counters, in the order of `hamlyn::statistics`; the rest is zero.
    pub values: [u64; 64],
}

/// Results of the self-tests: 0 for passed, else what failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynSelfTest {
    /// Out: register access.
    pub access: u32,
    /// Out: DMA: 1 the card refused, 2 the bytes are wrong (is guest memory shared with the card?).
    pub dma: u32,
    /// Out: interrupts: the first vector, plus 1, that did not arrive.
    pub interrupt: u32,
    /// Zero.
    pub reserved: u32,
}

/// A name to listen under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynListen {
    /// In: bytes of the name, 1 to [`HAMLYN_MAX_NAME`].
    pub name_length: u32,
    /// In: how many requests may wait, 1 to [`HAMLYN_MAX_BACKLOG`].
    pub backlog: u32,
    /// Zero.
    pub reserved: [u64; 2],
    /// In: the name, any bytes; zero behind it.
    pub name: [u8; 64],
}

/// Whom to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynConnect {
    /// In: the host id.
    pub host: u32,
    /// In: bytes of the name, 1 to [`HAMLYN_MAX_NAME`].
    pub name_length: u32,
    /// In: bytes of private data, 0 to [`HAMLYN_MAX_PRIVATE`].
    pub private_length: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: u64,
    /// In: the name; zero behind it.
    pub name: [u8; 64],
    /// In: what the listener is passed; zero behind it.
    pub data: [u8; 256],
}

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynConnectionState {
    /// Out: `HAMLYN_CONNECTION_*`.
    pub state: u32,
    /// Out: `HAMLYN_END_*` once it has ended, else zero.
    pub reason: u32,
    /// Out: the peer's host id.
    pub host: u32,
    /// Out: bytes of private data.
    pub private_length: u32,
    /// Zero.
    pub reserved: u64,
    /// Out: what the peer passed last: with its request, its answer, or its close; zero behind it.
    pub data: [u8; 256],
}

/// What the user who opened the file holds of the card, through all his files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynShareQuery {
    /// Out: how many he holds, by `HAMLYN_SHARE_*`.
    pub held: [u32; 4],
    /// Out: how many he may hold as things stand: a share of what the others leave. It falls while others take more, and
    /// what he holds already stays his.
    pub limit: [u32; 4],
    /// Out: whose share it is: the user id of who opened the file, or of who made the user namespace in which he did, as
    /// the caller sees it.
    pub user: u32,
    /// Zero.
    pub reserved0: u32,
    /// Zero.
    pub reserved1: [u64; 3],
}

/// What is passed to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct HamlynPrivate {
    /// In: bytes, 0 to [`HAMLYN_MAX_PRIVATE`].
    pub length: u32,
    /// Zero.
    pub reserved: u32,
    /// In: the bytes; zero behind them.
    pub data: [u8; 256],
}
