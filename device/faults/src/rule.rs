//! The parts of a rule.

use std::time::Duration;

/// What may go wrong when an event happens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    /// The card raises an interrupt: any, or this vector.
    Interrupt { vector: Option<u16>, how: Interrupt },
    /// The machine reads a register: any, or this one.
    Read { place: Option<Place>, how: Read },
    /// The machine writes a register.
    Write { place: Option<Place>, twice: bool },
    /// The machine reads or writes a register, and waits for this long.
    Access { by: Duration },
    /// The machine has the card carry out a command.
    Command { opcode: Option<u32>, how: CommandFault },
    /// The card accesses guest memory: any, or this page.
    Dma { page: Option<u64>, writes: Option<bool> },
    /// A packet arrives: any, or one from this host.
    Packet { from: Option<u16>, how: PacketFault },
}

/// A register, by BAR and offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bar: u8,
    /// Any, if `None`.
    pub(crate) offset: Option<u64>,
}

impl Place {
    pub(crate) fn is_at(self, bar: u8, offset: u64) -> bool {
        self.bar == bar && self.offset.is_none_or(|place| place == offset)
    }
}

/// What happens to an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    Drop,
    Twice,
    Delay(Duration),
    /// Those of a vector within this time become one, at its end.
    Coalesce(Duration),
}

/// What a read returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Value(u64),
    /// The first value that this rule has seen.
    Stuck,
}

/// What happens to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandFault {
    /// The card does not carry it out, and answers with this status.
    Refuse(u32),
    /// The card carries it out, and answers with this status.
    Answer(u32),
    /// The card does nothing, and does not answer.
    Drop,
    /// The card carries it out twice.
    Twice,
}

/// What happens to a packet that arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PacketFault {
    Drop,
    Twice,
    /// It comes after the next one.
    Reorder,
    /// Its last bytes are missing.
    Cut(usize),
    /// One bit of it is wrong.
    Corrupt,
    /// It comes later, and so does what arrives behind it.
    Delay {
        by: Duration,
        jitter: Duration,
        rate: Option<u64>,
    },
}

/// What goes wrong at a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimedFault {
    State(State, Duration),
    /// The card forgets everything, as at power-on, and the machine has not asked for it.
    Reset,
    /// The card's clock goes ahead by this.
    Jump(Duration),
}

/// A state of the card that lasts for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The card accepts no stores: its FIFOs are full.
    Full,
    /// The link is down.
    Down,
    /// The card does nothing.
    Stuck,
    /// The card is gone: reads return ones, and all else is lost.
    Removed,
}

/// Which of the events have the fault. All conditions must hold.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct When {
    /// Only this one, from 1.
    pub(crate) nth: Option<u64>,
    /// Only multiples of this.
    pub(crate) every: Option<u64>,
    /// Each with this probability.
    pub(crate) chance: Option<f64>,
    /// At most this many.
    pub(crate) times: Option<u64>,
}

/// When a fault begins that has a time of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timing {
    /// Time from the rule's start.
    pub(crate) after: Duration,
    /// Time from one to the next, if it comes again.
    pub(crate) every: Option<Duration>,
    /// How often it comes, if not endlessly.
    pub(crate) times: Option<u64>,
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum What {
    Event(Fault, When),
    Timed(TimedFault, Timing),
}
