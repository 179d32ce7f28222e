//! Operations of messages (Figures 2 and 5).

use hamlyn_abi::dart::control::*;

/// A message's operation: the control of its first cell (Figure 3). It consists of a main operation
/// and additions to it, in any order. `docs/dart.md` specifies the semantics.
///
/// ```
/// use hamlyn::dart::{Operation, Source, Step, Target};
/// // Append: write 32 bytes at byte 4,096 plus register 0, then add register 1 to register 0.
/// let append = Operation::write(4096)
///     .indexed(0)
///     .first(Step::Add, Source::J, Target::I)
///     .indices([0, 1, 0]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operation {
    control: DartControl,
}

/// Bits of an opcode that belong to no field.
const UNNAMED: u32 = 0x8080_8080;

/// A register operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Step {
    /// Sets the target to the source.
    Move = DART_OP_MOVE,
    /// Sets the target to the complement of the source.
    Not = DART_OP_NOT,
    /// Sets the target to the negated source.
    Negate = DART_OP_NEGATE,
    /// Adds one to the target; the source is ignored.
    Increment = DART_OP_INCREMENT,
    /// Subtracts one from the target; the source is ignored.
    Decrement = DART_OP_DECREMENT,
    /// Adds the source to the target.
    Add = DART_OP_ADD,
    /// Subtracts the source from the target.
    Subtract = DART_OP_SUBTRACT,
    /// Bitwise AND.
    And = DART_OP_AND,
    /// Bitwise OR.
    Or = DART_OP_OR,
    /// Bitwise XOR.
    Xor = DART_OP_XOR,
    /// The smaller value, unsigned.
    Minimum = DART_OP_MINIMUM,
    /// The larger value, unsigned.
    Maximum = DART_OP_MAXIMUM,
    /// Shifts the target left by the source modulo 64.
    ShiftLeft = DART_OP_LEFT,
    /// Shifts the target right by the source modulo 64.
    ShiftRight = DART_OP_RIGHT,
    /// Sets the target to the source if the target equals the operand.
    ReplaceIfEqual = DART_OP_REPLACE,
}

/// The source of a step, or the right side of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Source {
    /// The operand.
    Operand = DART_SOURCE_OPERAND,
    /// The result of the previous step.
    Value = DART_SOURCE_VALUE,
    /// Register `j`.
    J = DART_SOURCE_J,
    /// Register `k`.
    K = DART_SOURCE_K,
}

/// The target of a step, or the left side of a comparison.
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
    /// Both sides are equal.
    Equal = DART_COMPARE_EQUAL,
    /// The sides differ.
    Unequal = DART_COMPARE_UNEQUAL,
    /// The left is less, unsigned.
    Less = DART_COMPARE_LESS,
    /// The left is less or equal, unsigned.
    NotMore = DART_COMPARE_NOT_MORE,
    /// The left is less, signed.
    SignedLess = DART_COMPARE_SIGNED_LESS,
    /// The left is less or equal, signed.
    SignedNotMore = DART_COMPARE_SIGNED_NOT_MORE,
}

/// The time when the address is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Order {
    /// Before the register operations; the comparison is last.
    AddressFirst = DART_ORDER_FIRST,
    /// Between the register operations.
    AddressBetween = DART_ORDER_BETWEEN,
    /// After the register operations.
    AddressBehind = DART_ORDER_BEHIND,
    /// The comparison is first, then the address, then the register operations.
    ComparedFirst = DART_ORDER_COMPARED,
}

impl Operation {
    const fn of(main: u32, operand: u64) -> Self {
        Self { control: DartControl { opcode: main, mask: 0, indices: [0; 3], operand } }
    }

    /// Only register operations, with this operand.
    #[must_use]
    pub const fn registers(operand: u64) -> Self {
        Self::of(DART_MAIN_NONE, operand)
    }

    /// Writes up to 32 bytes, starting at byte `offset` of the endpoint.
    #[must_use]
    pub const fn write(offset: u64) -> Self {
        Self::of(DART_MAIN_WRITE, offset)
    }

    /// Writes up to 65,504 bytes, starting at byte `offset` of the endpoint.
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

    /// Answers with the old and new value of register `i`: see [`super::Connection::ask`].
    #[must_use]
    pub const fn answer(operand: u64) -> Self {
        Self::of(DART_MAIN_ANSWER, operand)
    }

    /// Executes entry `entry` of the receiver's program.
    #[must_use]
    pub const fn call(entry: u64) -> Self {
        Self::of(DART_MAIN_CALL, entry)
    }

    /// Executes entry `entry` of the receiver's program. The operand is used if the entry takes the
    /// caller's ([`super::Entry::with_callers_operand`]).
    #[must_use]
    pub const fn call_with(entry: u16, operand: u64) -> Self {
        let entry = (entry as u32) << DART_CALL_ENTRY_SHIFT;
        Self::of(DART_MAIN_CALL | DART_CALL_OPERAND | entry, operand)
    }

    /// Makes the call a question, which its entry answers: see [`super::Connection::ask`]. Does not
    /// change other operations than calls.
    #[must_use]
    pub const fn answered(mut self) -> Self {
        if self.control.opcode & 7 == DART_MAIN_CALL {
            self.control.opcode |= DART_CALL_ASKS;
        }
        self
    }

    /// A software exception with up to 65,504 bytes. The receiver's software finds it in its
    /// exception queue. `about`, 29 bits, and the operand are for software. Without an exception
    /// queue, the receiver traps: [`Trap::Unimplemented`](crate::dart::Trap::Unimplemented).
    #[must_use]
    pub const fn exception(about: u32, operand: u64) -> Self {
        Self::of(DART_MAIN_EXCEPTION | about << DART_ADDRESSING_SHIFT, operand)
    }

    const fn with(mut self, field: u32, shift: u32) -> Self {
        self.control.opcode |= field << shift;
        self
    }

    /// Uses register `i` as the address.
    #[must_use]
    pub const fn indirect(self, i: u8) -> Self {
        self.with(DART_ADDRESSING_INDIRECT, DART_ADDRESSING_SHIFT).at(i)
    }

    /// Uses register `i` plus the offset as the address.
    #[must_use]
    pub const fn indexed(self, i: u8) -> Self {
        self.with(DART_ADDRESSING_INDEXED, DART_ADDRESSING_SHIFT).at(i)
    }

    const fn at(mut self, i: u8) -> Self {
        self.control.indices[0] = i;
        self
    }

    /// Sets when the address is generated. The default is first.
    #[must_use]
    pub const fn order(self, order: Order) -> Self {
        self.with(order as u32, DART_ORDER_SHIFT)
    }

    const fn step(step: Step, source: Source, target: Target) -> u32 {
        let source = match step {
            // These steps have no source, and the field is zero.
            Step::Increment | Step::Decrement => 0,
            _ => source as u32,
        };
        step as u32 | source << DART_SOURCE_SHIFT | (target as u32) << DART_TARGET_SHIFT
    }

    /// Sets the first register operation.
    #[must_use]
    pub const fn first(self, step: Step, source: Source, target: Target) -> Self {
        self.with(Self::step(step, source, target), DART_FIRST_SHIFT)
    }

    /// Sets the second register operation.
    #[must_use]
    pub const fn second(self, step: Step, source: Source, target: Target) -> Self {
        self.with(Self::step(step, source, target), DART_SECOND_SHIFT)
    }

    /// Creates an event at the end if the comparison holds: a record in the receiver's event queue.
    #[must_use]
    pub const fn tell_if(self, comparison: Comparison, left: Target, right: Source) -> Self {
        let field = comparison as u32 | (left as u32) << (DART_LEFT_SHIFT - DART_COMPARE_SHIFT);
        self.with(field, DART_COMPARE_SHIFT).with(right as u32, DART_RIGHT_SHIFT)
    }

    /// Creates an event at the end.
    #[must_use]
    pub const fn tell(self) -> Self {
        self.with(DART_COMPARE_ALWAYS, DART_COMPARE_SHIFT)
    }

    /// Refuses the message if the comparison of [`Operation::tell_if`] holds. It then changes
    /// nothing, and its sender is notified.
    #[must_use]
    pub const fn refuse_instead(mut self) -> Self {
        self.control.opcode |= DART_REFUSE;
        self
    }

    /// Selects registers `i`, `j` and `k` of the receiver's window.
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

    /// Returns the format of the card.
    #[must_use]
    pub const fn control(&self) -> DartControl {
        self.control
    }

    /// Returns whether the message may have more than 32 bytes of data.
    pub(super) fn is_long(&self) -> bool {
        match self.control.opcode & 7 {
            DART_MAIN_WRITE_MULTIPLE => true,
            DART_MAIN_CALL => self.control.opcode & DART_CALL_ASKS == 0,
            DART_MAIN_EXCEPTION => true,
            // Operations with bits that belong to no field are handled by the receiver's software.
            _ => self.control.opcode & UNNAMED != 0,
        }
    }
}

impl From<DartControl> for Operation {
    fn from(control: DartControl) -> Self {
        Self { control }
    }
}
