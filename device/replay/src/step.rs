//! The steps of a recording: calls of a card, and what the card does with its ports meanwhile.
//!
//! A step is a [`Record`] with bytes behind it, whose kind is a [`StepKind`]. A call is a step of
//! its own, followed by the steps of the call, and a [`StepKind::Return`].

use std::fmt::{self, Display, Formatter};

use hamlyn_card::card::{Card, Progress, Reading};
use hamlyn_trace::record::Record;

/// Longest range of memory that a recorded card gets in place. The rest it reads or writes in
/// pieces, as [`Dma::lend`](hamlyn_card::ports::Dma::lend) allows.
pub const MOST_LENT: usize = 64 << 10;
/// Bytes that the text of a step shows.
const SHOWN: usize = 64;

/// Declares the kinds of steps with their numbers.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal,)*) => {
        /// What a step is. `a` and `b` are the record's numbers, `bytes` what follows it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum StepKind { $($(#[$doc])* $kind = $number,)* }

        impl StepKind {
            /// Returns the kind with this number.
            #[must_use]
            pub fn of(number: u8) -> Option<StepKind> {
                match number {
                    $($number => Some(StepKind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// Call of `register_read`: BAR, width, offset `a`.
    RegisterRead = 1,
    /// Call of `register_write`: BAR, width, offset `a`, value `b`.
    RegisterWrite = 2,
    /// Call of `store_seen`: address `a`; then the bytes.
    StoreSeen = 3,
    /// Call of `make_room`.
    MakeRoom = 4,
    /// Call of `snooping_changed`: `a` is 1 if stores can be watched.
    SnoopingChanged = 5,
    /// Call of `transmit`.
    Transmit = 6,
    /// Call of `packet_arrived`: source `a`; then the packet.
    PacketArrived = 7,
    /// Call of `sleep`.
    Sleep = 8,
    /// Call of `tick`.
    Tick = 9,
    /// Call of `link_changed`: host `a` of `b` ports. `failed`: the link is down.
    LinkChanged = 10,
    /// Call of `reset`.
    Reset = 11,
    /// The card answered a read late: number `a`, value `b`. Has no return.
    LateReading = 12,
    /// The card began to watch page `a`, or stopped if `b` is 0. Has no return.
    WatchChange = 13,
    /// The call returned `a`; `b` is the time of the next tick, in nanoseconds. See [`Returned`].
    Return = 20,
    /// The card read its clock: `a` nanoseconds.
    Clock = 30,
    /// The card read host memory: address `a`, length `b`; then the bytes, unless it `failed`.
    DmaRead = 31,
    /// The card got host memory in place: address `a`, length `b`; then the bytes, unless `failed`.
    DmaLend = 32,
    /// The card changed a word: address `a`, old value `b`, `failed`; then the operation.
    DmaFetch = 33,
    /// The card loaded a word from a window: BAR, offset `a`, value `b`.
    WindowLoad = 34,
    /// The card copied from a window: BAR, offset `a`, length `b`; then the bytes.
    WindowCopy = 35,
    /// The card asked whether sends to host `a` are stopped. `b` is 1 if they are.
    IsStopped = 36,
    /// The card read the link's count of resumptions: `a`.
    Resumptions = 37,
    /// The card sent a packet to host or group `a`; then the packet. `failed`: the link was full.
    Send = 38,
    /// The card asked for host memory in place, for writing: address `a`, length `b`. Unless that
    /// `failed`, it got none, and writes by calls.
    DmaCheck = 39,
    /// The card wrote host memory: address `a`, length `b`, `failed`; then the bytes.
    DmaWrite = 50,
    /// The card stored a word that the host polls: address `a`, value `b`, `failed`.
    DmaPublish = 51,
    /// The card stored a word to a window: BAR, offset `a`, value `b`.
    WindowStore = 52,
    /// The card zeroed a part of a window: BAR, offset `a`, length `b`.
    WindowClear = 53,
    /// The card raised an MSI-X vector: `a`.
    Raise = 54,
    /// The card set its groups: `a`.
    SetGroups = 55,
    /// The reader did not keep up, so the recording ends here.
    Broken = 60,
}

impl StepKind {
    /// Whether the step is a call of the card.
    #[must_use]
    pub fn is_call(self) -> bool {
        (self as u8) < StepKind::Return as u8
    }

    /// Whether the call ends with a [`StepKind::Return`].
    #[must_use]
    pub fn returns(self) -> bool {
        self.is_call() && !matches!(self, StepKind::LateReading | StepKind::WatchChange)
    }

    /// Whether the host, the link or the machine sees the step.
    #[must_use]
    pub fn is_output(self) -> bool {
        matches!(self, StepKind::Send | StepKind::DmaFetch) || (50..60).contains(&(self as u8))
    }

    /// Returns the method's name of a call, or what the card did.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StepKind::RegisterRead => "read of a register",
            StepKind::RegisterWrite => "write of a register",
            StepKind::StoreSeen => "store that the card sees",
            StepKind::MakeRoom => "request to make room",
            StepKind::SnoopingChanged => "change of snooping",
            StepKind::Transmit => "turn to transmit",
            StepKind::PacketArrived => "packet",
            StepKind::Sleep => "request to sleep",
            StepKind::Tick => "tick",
            StepKind::LinkChanged => "change of the link",
            StepKind::Reset => "reset",
            StepKind::LateReading => "late answer to a read",
            StepKind::WatchChange => "change of a watched page",
            StepKind::Return => "return",
            StepKind::Clock => "look at the clock",
            StepKind::DmaRead | StepKind::DmaLend => "read of host memory",
            StepKind::DmaCheck => "request for host memory in place",
            StepKind::DmaFetch => "fetch-and-op on host memory",
            StepKind::WindowLoad | StepKind::WindowCopy => "load from a window",
            StepKind::IsStopped | StepKind::Resumptions => "look at the link",
            StepKind::Send => "send",
            StepKind::DmaWrite | StepKind::DmaPublish => "write to host memory",
            StepKind::WindowStore | StepKind::WindowClear => "store to a window",
            StepKind::Raise => "interrupt",
            StepKind::SetGroups => "change of groups",
            StepKind::Broken => "end for lack of room",
        }
    }
}

/// A step with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What happened.
    pub kind: StepKind,
    /// Its numbers.
    pub record: Record,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Step {
    /// Whether two outputs are the same to all that see them.
    #[must_use]
    pub fn is_same(&self, other: &Step) -> bool {
        let numbers = |step: &Step| {
            let Record { a, b, bar, failed, .. } = step.record;
            (step.kind, a, b, bar, failed)
        };
        numbers(self) == numbers(other) && self.bytes == other.bytes
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Record { a, b, bar, width, failed, .. } = self.record;
        f.write_str(self.kind.name())?;
        match self.kind {
            StepKind::RegisterRead => write!(f, " (BAR{bar}+{a:#x}, {width} bytes)")?,
            StepKind::RegisterWrite => write!(f, " (BAR{bar}+{a:#x}, {width} bytes: {b:#x})")?,
            StepKind::PacketArrived => write!(f, " from host {a} of {} bytes", self.bytes.len())?,
            StepKind::Send => write!(f, " to host {a} of {b} bytes")?,
            StepKind::DmaPublish | StepKind::DmaFetch => write!(f, " at {a:#x}: {b:#x}")?,
            StepKind::DmaRead | StepKind::DmaLend | StepKind::DmaWrite => {
                write!(f, " at {a:#x} of {b} bytes")?
            }
            StepKind::WindowLoad | StepKind::WindowStore => write!(f, " (BAR{bar}+{a:#x}: {b:#x})")?,
            StepKind::WindowCopy | StepKind::WindowClear => write!(f, " (BAR{bar}+{a:#x}, {b} bytes)")?,
            StepKind::Raise => write!(f, " {a}")?,
            StepKind::WatchChange => write!(f, ": page {a:#x}, {b}")?,
            StepKind::LateReading => write!(f, ": number {a}, {b:#x}")?,
            StepKind::LinkChanged if failed != 0 => f.write_str(": down")?,
            StepKind::LinkChanged => write!(f, ": host {a} of {b}")?,
            _ => {}
        }
        if failed != 0 && (self.kind.is_output() || self.kind == StepKind::DmaRead) {
            f.write_str(", which fails")?;
        }
        if self.kind.is_output() && !self.bytes.is_empty() {
            f.write_str(":")?;
            let shown = self.bytes.len().min(SHOWN);
            self.bytes[..shown].chunks(4).try_for_each(|word| {
                f.write_str(" ")?;
                word.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            })?;
            f.write_str(if shown < self.bytes.len() { ".." } else { "" })?;
        }
        Ok(())
    }
}

/// Returns a step's record, without a time.
#[must_use]
pub fn step(kind: StepKind, a: u64, b: u64) -> Record {
    Record { a, b, kind: kind as u8, ..Record::default() }
}

/// What a call returned, and what the card says of itself then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Returned {
    /// The method's result: a value, 0 or 1, or a [`Progress`].
    pub value: u64,
    /// Whether a read is answered later.
    pub is_late: bool,
    /// Time of the next tick, in nanoseconds.
    pub alarm: Option<u64>,
    /// Whether the card takes stores, takes packets, and is enabled.
    pub takes: [bool; 3],
}

impl Returned {
    /// Returns a result of `card`.
    #[must_use]
    pub fn of(card: &dyn Card, value: u64, is_late: bool) -> Returned {
        let alarm = card.alarm().map(|alarm| alarm.as_nanos() as u64);
        Returned {
            value,
            is_late,
            alarm,
            takes: [card.takes_stores(), card.takes_packets(), card.is_enabled()],
        }
    }

    /// Returns the step.
    #[must_use]
    pub fn to_record(self) -> Record {
        let bits = self.takes.iter().rev().fold(0, |bits, takes| bits << 1 | u8::from(*takes));
        let alarm = self.alarm.unwrap_or(u64::MAX);
        Record { width: bits, failed: self.is_late.into(), ..step(StepKind::Return, self.value, alarm) }
    }

    /// Returns what a step says.
    #[must_use]
    pub fn of_record(record: &Record) -> Returned {
        let takes = [0, 1, 2].map(|bit| record.width >> bit & 1 != 0);
        let alarm = Some(record.b).filter(|alarm| *alarm != u64::MAX);
        Returned { value: record.a, is_late: record.failed != 0, alarm, takes }
    }
}

impl Display for Returned {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Returned { value, is_late, alarm, takes: [stores, packets, enabled] } = self;
        write!(f, "{value:#x}{}, next tick ", if *is_late { " (late)" } else { "" })?;
        match alarm {
            Some(alarm) => write!(f, "at {alarm} ns")?,
            None => f.write_str("never")?,
        }
        write!(f, ", takes stores: {stores}, takes packets: {packets}, enabled: {enabled}")
    }
}

/// Returns a reading as a result.
#[must_use]
pub fn of_reading(reading: Reading) -> (u64, bool) {
    match reading {
        Reading::Now(value) => (value, false),
        Reading::Later(number) => (number, true),
    }
}

/// Returns a progress as a result.
#[must_use]
pub fn of_progress(progress: Progress) -> u64 {
    match progress {
        Progress::Idle => 0,
        Progress::Worked => 1,
        Progress::Yielded => 2,
        Progress::LinkFull => 3,
    }
}
