//! What a message does at its receiver (Figures 2 and 5).

use hamlyn_abi::dart::control::*;

/// A message's operation: the control of its first cell (Figure 3). It is made of a main operation
/// and of what is added to it, in any order; `docs/dart.md` has the semantics of all of it.
///
/// ```
/// use hamlyn::dart::{Operation, Source, Step, Target};
/// // Append: 32 bytes to where register 0 says, from byte 4,096 on; then register 0 moves on by register 1.
/// let append = Operation::write(4096).indexed(0).first(Step::Add, Source::J, Target::I).indices([0, 1, 0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operation {
    control: DartControl,
}

/// Bits of an opcode that no field has.
const UNNAMED: u32 = 0x8080_8080;

/// A register operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Step {
    /// The target becomes the source.
    Move = DART_OP_MOVE,
    /// Its complement.
    Not = DART_OP_NOT,
    /// Its negative.
    Negate = DART_OP_NEGATE,
    /// One more; the source is not looked at.
    Increment = DART_OP_INCREMENT,
    /// One less; the source is not looked at.
    Decrement = DART_OP_DECREMENT,
    /// Plus the source.
    Add = DART_OP_ADD,
    /// Minus the source.
    Subtract = DART_OP_SUBTRACT,
    /// Bits that both have.
    And = DART_OP_AND,
    /// Bits that one has.
    Or = DART_OP_OR,
    /// Bits that only one has.
    Xor = DART_OP_XOR,
    /// The lesser, unsigned.
    Minimum = DART_OP_MINIMUM,
    /// The greater, unsigned.
    Maximum = DART_OP_MAXIMUM,
    /// To the left by the source modulo 64.
    ShiftLeft = DART_OP_LEFT,
    /// To the right by the source modulo 64.
    ShiftRight = DART_OP_RIGHT,
    /// The source, if the target is the operand.
    ReplaceIfEqual = DART_OP_REPLACE,
}

/// Where a step's source, or a comparison's right side, comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Source {
    /// The operand.
    Operand = DART_SOURCE_OPERAND,
    /// What the step before has made.
    Value = DART_SOURCE_VALUE,
    /// Register `j`.
    J = DART_SOURCE_J,
    /// Register `k`.
    K = DART_SOURCE_K,
}

/// A step's target, or a comparison's left side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Target {
    /// Register `i`.
    I = DART_TARGET_I,
    /// Register `j`.
    J = DART_TARGET_J,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Comparison {
    /// Both sides are the same.
    Equal = DART_COMPARE_EQUAL,
    /// They are not.
    Unequal = DART_COMPARE_UNEQUAL,
    /// The left is less, unsigned.
    Less = DART_COMPARE_LESS,
    /// The left is not more, unsigned.
    NotMore = DART_COMPARE_NOT_MORE,
    /// The left is less, signed.
    SignedLess = DART_COMPARE_SIGNED_LESS,
    /// The left is not more, signed.
    SignedNotMore = DART_COMPARE_SIGNED_NOT_MORE,
}

/// When the address is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Order {
    /// Before the register operations; the comparison is last.
    AddressFirst = DART_ORDER_FIRST,
    /// Between them.
    AddressBetween = DART_ORDER_BETWEEN,
    /// Behind them.
    AddressBehind = DART_ORDER_BEHIND,
    /// The comparison is first, then the address, then the register operations.
    ComparedFirst = DART_ORDER_COMPARED,
}

impl Operation {
    const fn of(main: u32, operand: u64) -> Self {
        Self { control: DartControl { opcode: main, mask: 0, indices: [0; 3], operand } }
    }

    /// Registers alone, with this operand.
    #[must_use]
    pub const fn registers(operand: u64) -> Self {
        Self::of(DART_MAIN_NONE, operand)
    }

    /// Writes up to 32 bytes from byte `offset` of the endpoint on.
    #[must_use]
    pub const fn write(offset: u64) -> Self {
        Self::of(DART_MAIN_WRITE, offset)
    }

    /// Writes up to 65,504 bytes from byte `offset` of the endpoint on.
    #[must_use]
    pub const fn write_multiple(offset: u64) -> Self {
        Self::of(DART_MAIN_WRITE_MULTIPLE, offset)
    }

    /// Reads 32 bytes: see [`super::Connection::ask`].
    #[must_use]
    pub const fn read(offset: u64) -> Self {
        Self::of(DART_MAIN_READ, offset)
    }

    /// Reads up to 65,504 bytes: see [`super::Connection::ask`].
    #[must_use]
    pub const fn read_multiple(offset: u64) -> Self {
        Self::of(DART_MAIN_READ_MULTIPLE, offset)
    }

    /// Answers with register `i` as it was and as it is: see [`super::Connection::ask`].
    #[must_use]
    pub const fn answer(operand: u64) -> Self {
        Self::of(DART_MAIN_ANSWER, operand)
    }

    /// What entry `entry` of the receiver's program says.
    #[must_use]
    pub const fn call(entry: u64) -> Self {
        Self::of(DART_MAIN_CALL, entry)
    }

    /// What entry `entry` of the receiver's program says, with this operand if the entry takes the
    /// caller's ([`super::Entry::with_callers_operand`]).
    #[must_use]
    pub const fn call_with(entry: u16, operand: u64) -> Self {
        let entry = (entry as u32) << DART_CALL_ENTRY_SHIFT;
        Self::of(DART_MAIN_CALL | DART_CALL_OPERAND | entry, operand)
    }

    /// The call is a question, and its entry answers: see [`super::Connection::ask`]. Of what is
    /// not a call it changes nothing.
    #[must_use]
    pub const fn answered(mut self) -> Self {
        if self.control.opcode & 7 == DART_MAIN_CALL {
            self.control.opcode |= DART_CALL_ASKS;
        }
        self
    }

    /// A software exception with up to 65,504 bytes: the receiver's software finds it in its
    /// exception queue. `about`, of 29 bits, and the operand are its own. If the receiver has none,
    /// that is a trap: [`Trap::Unimplemented`](crate::dart::Trap::Unimplemented).
    #[must_use]
    pub const fn exception(about: u32, operand: u64) -> Self {
        Self::of(DART_MAIN_EXCEPTION | about << DART_ADDRESSING_SHIFT, operand)
    }

    const fn with(mut self, field: u32, shift: u32) -> Self {
        self.control.opcode |= field << shift;
        self
    }

    /// The address is register `i`.
    #[must_use]
    pub const fn indirect(self, i: u8) -> Self {
        self.with(DART_ADDRESSING_INDIRECT, DART_ADDRESSING_SHIFT).at(i)
    }

    /// The address is register `i` plus the offset.
    #[must_use]
    pub const fn indexed(self, i: u8) -> Self {
        self.with(DART_ADDRESSING_INDEXED, DART_ADDRESSING_SHIFT).at(i)
    }

    const fn at(mut self, i: u8) -> Self {
        self.control.indices[0] = i;
        self
    }

    /// When the address is generated, if not first.
    #[must_use]
    pub const fn order(self, order: Order) -> Self {
        self.with(order as u32, DART_ORDER_SHIFT)
    }

    const fn step(step: Step, source: Source, target: Target) -> u32 {
        let source = match step {
            // There is none, and the field is zero.
            Step::Increment | Step::Decrement => 0,
            _ => source as u32,
        };
        step as u32 | source << DART_SOURCE_SHIFT | (target as u32) << DART_TARGET_SHIFT
    }

    /// The first register operation.
    #[must_use]
    pub const fn first(self, step: Step, source: Source, target: Target) -> Self {
        self.with(Self::step(step, source, target), DART_FIRST_SHIFT)
    }

    /// The second register operation.
    #[must_use]
    pub const fn second(self, step: Step, source: Source, target: Target) -> Self {
        self.with(Self::step(step, source, target), DART_SECOND_SHIFT)
    }

    /// If this holds there is an event at the end: a record in the receiver's event queue.
    #[must_use]
    pub const fn tell_if(self, comparison: Comparison, left: Target, right: Source) -> Self {
        let field = comparison as u32 | (left as u32) << (DART_LEFT_SHIFT - DART_COMPARE_SHIFT);
        self.with(field, DART_COMPARE_SHIFT).with(right as u32, DART_RIGHT_SHIFT)
    }

    /// There is an event at the end.
    #[must_use]
    pub const fn tell(self) -> Self {
        self.with(DART_COMPARE_ALWAYS, DART_COMPARE_SHIFT)
    }

    /// If what [`Operation::tell_if`] says holds the message is refused: it changes nothing, and
    /// its sender is told.
    #[must_use]
    pub const fn refuse_instead(mut self) -> Self {
        self.control.opcode |= DART_REFUSE;
        self
    }

    /// Registers `i`, `j` and `k` of the receiver's window.
    #[must_use]
    pub const fn indices(mut self, indices: [u8; 3]) -> Self {
        self.control.indices = indices;
        self
    }

    /// Bit `w` deselects word `w`, of 4 bytes, in each block of 32.
    #[must_use]
    pub const fn mask(mut self, mask: u8) -> Self {
        self.control.mask = mask;
        self
    }

    /// As it travels.
    #[must_use]
    pub const fn control(&self) -> DartControl {
        self.control
    }

    /// Whether it may have more than 32 bytes of data.
    pub(super) fn is_long(&self) -> bool {
        match self.control.opcode & 7 {
            DART_MAIN_WRITE_MULTIPLE => true,
            DART_MAIN_CALL => self.control.opcode & DART_CALL_ASKS == 0,
            DART_MAIN_EXCEPTION => true,
            // What has one of the bits that no field has is the receiver's software's.
            _ => self.control.opcode & UNNAMED != 0,
        }
    }
}

impl From<DartControl> for Operation {
    fn from(control: DartControl) -> Self {
        Self { control }
    }
}
