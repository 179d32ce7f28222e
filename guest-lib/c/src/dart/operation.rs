//! Operations of messages.

use hamlyn::dart::{Comparison, Entry, Operation, Order, Source, Step, Target};

use crate::call::{Failure, unused};
use crate::exported::{Out, exported};

/// Main operation: only changes registers.
pub const DART_REGISTERS: u32 = 0;
/// Main operation: writes up to 32 bytes.
pub const DART_WRITE: u32 = 1;
/// Main operation: writes up to DART_LONGEST bytes.
pub const DART_WRITE_MULTIPLE: u32 = 2;
/// Main operation: reads 32 bytes (dart_ask).
pub const DART_READ: u32 = 3;
/// Main operation: reads up to DART_LONGEST bytes (dart_ask).
pub const DART_READ_MULTIPLE: u32 = 4;
/// Main operation: answers with the previous and the current value of register i (dart_ask).
pub const DART_ANSWER: u32 = 5;
/// Main operation: executes entry `operand` of the receiver's program. Of the other fields, only
/// indices, mask and data apply.
pub const DART_CALL: u32 = 6;
/// Main operation: a software exception, which the receiver's software finds in its exception
/// queue. `about`, of 29 bits, and the operand are defined by the software.
pub const DART_EXCEPTION: u32 = 7;
/// Main operation: `about` is the opcode in its wire format. If the receiver's card does not know
/// it, the receiver's software handles it.
pub const DART_OPCODE: u32 = 8;
/// Main operation: executes entry `about` of the receiver's program, 0 to 65535. If that entry
/// takes its caller's operand, it uses `operand`.
pub const DART_CALL_WITH: u32 = 9;

/// The address is the operand.
pub const DART_DIRECT: u32 = 0;
/// The address is register i.
pub const DART_INDIRECT: u32 = 1;
/// The address is register i plus the operand.
pub const DART_INDEXED: u32 = 2;

/// Generates the address before the register operations; the comparison is last.
pub const DART_ADDRESS_FIRST: u32 = 0;
/// Generates the address between the register operations; the comparison is last.
pub const DART_ADDRESS_BETWEEN: u32 = 1;
/// Generates the address after the register operations; the comparison is last.
pub const DART_ADDRESS_BEHIND: u32 = 2;
/// Evaluates the comparison first, then generates the address, then executes the register
/// operations.
pub const DART_COMPARED_FIRST: u32 = 3;

/// No register operation.
pub const DART_STEP_NONE: u32 = 0;
/// Sets the target to the source.
pub const DART_STEP_MOVE: u32 = 1;
/// Sets the target to the complement of the source.
pub const DART_STEP_NOT: u32 = 2;
/// Sets the target to the negated source.
pub const DART_STEP_NEGATE: u32 = 3;
/// Adds one to the target; the source is ignored.
pub const DART_STEP_INCREMENT: u32 = 4;
/// Subtracts one from the target; the source is ignored.
pub const DART_STEP_DECREMENT: u32 = 5;
/// Adds the source to the target.
pub const DART_STEP_ADD: u32 = 6;
/// Subtracts the source from the target.
pub const DART_STEP_SUBTRACT: u32 = 7;
/// Bitwise AND.
pub const DART_STEP_AND: u32 = 8;
/// Bitwise OR.
pub const DART_STEP_OR: u32 = 9;
/// Bitwise XOR.
pub const DART_STEP_XOR: u32 = 10;
/// The smaller value, unsigned.
pub const DART_STEP_MINIMUM: u32 = 11;
/// The larger value, unsigned.
pub const DART_STEP_MAXIMUM: u32 = 12;
/// Shifts the target left by the source modulo 64.
pub const DART_STEP_SHIFT_LEFT: u32 = 13;
/// Shifts the target right by the source modulo 64.
pub const DART_STEP_SHIFT_RIGHT: u32 = 14;
/// Sets the target to the source if the target equals the operand.
pub const DART_STEP_REPLACE_IF_EQUAL: u32 = 15;

/// The source, or a comparison's right side, is the operand.
pub const DART_SOURCE_OPERAND: u32 = 0;
/// The source, or a comparison's right side, is the result of the previous step.
pub const DART_SOURCE_VALUE: u32 = 1;
/// The source, or a comparison's right side, is register j.
pub const DART_SOURCE_J: u32 = 2;
/// The source, or a comparison's right side, is register k.
pub const DART_SOURCE_K: u32 = 3;

/// The target, or a comparison's left side, is register i.
pub const DART_TARGET_I: u32 = 0;
/// The target, or a comparison's left side, is register j.
pub const DART_TARGET_J: u32 = 1;

/// No comparison, and no event.
pub const DART_COMPARE_NONE: u32 = 0;
/// Both sides are equal.
pub const DART_COMPARE_EQUAL: u32 = 1;
/// The sides differ.
pub const DART_COMPARE_UNEQUAL: u32 = 2;
/// The left side is less, unsigned.
pub const DART_COMPARE_LESS: u32 = 3;
/// The left side is less or equal, unsigned.
pub const DART_COMPARE_NOT_MORE: u32 = 4;
/// The left side is less, signed.
pub const DART_COMPARE_SIGNED_LESS: u32 = 5;
/// The left side is less or equal, signed.
pub const DART_COMPARE_SIGNED_NOT_MORE: u32 = 6;
/// Always holds, without sides.
pub const DART_COMPARE_ALWAYS: u32 = 7;

/// A register operation; zeros mean none.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_step {
    /// One of the DART_STEP_ constants.
    pub step: u32,
    /// One of the DART_SOURCE_ constants.
    pub source: u32,
    /// DART_TARGET_I or DART_TARGET_J.
    pub target: u32,
}

/// The condition for an event at the end of the operation: a record in the receiver's event queue.
/// Zeros mean never.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_condition {
    /// One of the DART_COMPARE_ constants.
    pub comparison: u32,
    /// DART_TARGET_I or DART_TARGET_J.
    pub left: u32,
    /// One of the DART_SOURCE_ constants.
    pub right: u32,
    /// 1: if the comparison holds, the message is refused instead of creating an event. It then
    /// changes nothing, and its sender is notified. Otherwise 0.
    pub refuse: u32,
}

/// The operation of a message at its receiver (Figures 2 and 5); docs/dart.md has the semantics.
/// Fields that are not set must be zeros, which mean none.
///
/// For example, .main = DART_WRITE, .operand = 4096, .addressing = DART_INDEXED, .first = {
/// DART_STEP_ADD, DART_SOURCE_J, DART_TARGET_I }, .indices = { 0, 1 } writes to byte 4096 plus
/// register 0, and then adds register 1 to register 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct dart_operation {
    /// An offset in the receiver's endpoint, or data for its registers.
    pub operand: u64,
    /// One of the main operations, for example DART_WRITE.
    pub main: u32,
    /// DART_DIRECT, DART_INDIRECT or DART_INDEXED; 0 if the operation does not access memory.
    pub addressing: u32,
    /// When the address is generated, for example DART_ADDRESS_BETWEEN; 0 if the operation does not
    /// access memory.
    pub order: u32,
    /// The first register operation.
    pub first: dart_step,
    /// The second register operation.
    pub second: dart_step,
    /// The condition for an event.
    pub condition: dart_condition,
    /// For DART_EXCEPTION, DART_OPCODE and DART_CALL_WITH; otherwise 0.
    pub about: u32,
    /// Registers i, j and k of the receiver's window.
    pub indices: [u8; 3],
    /// Bit w deselects word w, of 4 bytes, in each block of 32 bytes.
    pub mask: u8,
    /// For dart_bank_set_program. 1: the entry takes the operand of its caller, a DART_CALL_WITH
    /// message; `operand` must be 0. Otherwise 0.
    pub callers_operand: u32,
    /// Must be 0.
    pub reserved: [u32; 3],
}

const MAINS: [fn(u64) -> Operation; 7] = [
    Operation::registers,
    Operation::write,
    Operation::write_multiple,
    Operation::read,
    Operation::read_multiple,
    Operation::answer,
    Operation::call,
];
const ORDERS: [Order; 4] =
    [Order::AddressFirst, Order::AddressBetween, Order::AddressBehind, Order::ComparedFirst];
/// Numbered from 1.
const STEPS: [Step; 15] = [
    Step::Move,
    Step::Not,
    Step::Negate,
    Step::Increment,
    Step::Decrement,
    Step::Add,
    Step::Subtract,
    Step::And,
    Step::Or,
    Step::Xor,
    Step::Minimum,
    Step::Maximum,
    Step::ShiftLeft,
    Step::ShiftRight,
    Step::ReplaceIfEqual,
];
const SOURCES: [Source; 4] = [Source::Operand, Source::Value, Source::J, Source::K];
const TARGETS: [Target; 2] = [Target::I, Target::J];
/// Numbered from 1.
const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::Unequal,
    Comparison::Less,
    Comparison::NotMore,
    Comparison::SignedLess,
    Comparison::SignedNotMore,
];

/// Maximum value of `about` for an exception.
const ABOUT: u32 = u32::MAX >> 3;

fn at_most(what: &str, number: u32, limit: u32) -> Result<(), Failure> {
    if number > limit {
        return Err(Failure::argument(format!("{what} {number} is unknown (limit {limit})")));
    }
    Ok(())
}

fn one_of<T: Copy>(all: &[T], what: &str, number: u32) -> Result<T, Failure> {
    at_most(what, number, all.len() as u32 - 1)?;
    Ok(all[number as usize])
}

/// Returns the register operation with this number.
pub(crate) fn step_of(number: u32) -> Result<Step, Failure> {
    at_most("step", number, STEPS.len() as u32)?;
    let place = number.checked_sub(1).ok_or_else(|| Failure::argument("step 0 is none"))?;
    one_of(&STEPS, "step", place)
}

impl dart_step {
    /// Returns the register operation, or `None` if there is none.
    fn read(&self) -> Result<Option<(Step, Source, Target)>, Failure> {
        if self.step == DART_STEP_NONE {
            at_most("source of no step", self.source, 0)?;
            at_most("target of no step", self.target, 0)?;
            return Ok(None);
        }
        let (source, target) =
            (one_of(&SOURCES, "source", self.source)?, one_of(&TARGETS, "target", self.target)?);
        Ok(Some((step_of(self.step)?, source, target)))
    }
}

impl dart_condition {
    fn add_to(&self, operation: Operation) -> Result<Operation, Failure> {
        at_most("comparison", self.comparison, DART_COMPARE_ALWAYS)?;
        at_most("refusal", self.refuse, 1)?;
        let added = match self.comparison.checked_sub(1).and_then(|place| COMPARISONS.get(place as usize)) {
            Some(comparison) => {
                let left = one_of(&TARGETS, "left side", self.left)?;
                operation.tell_if(*comparison, left, one_of(&SOURCES, "right side", self.right)?)
            }
            None => {
                at_most("left side of no comparison", self.left, 0)?;
                at_most("right side of no comparison", self.right, 0)?;
                if self.comparison == DART_COMPARE_ALWAYS { operation.tell() } else { operation }
            }
        };
        if self.refuse == 0 {
            return Ok(added);
        }
        if self.comparison == DART_COMPARE_NONE {
            return Err(Failure::argument("a message that is refused has a comparison"));
        }
        Ok(added.refuse_instead())
    }
}

impl dart_operation {
    /// Returns the operation as an entry of a program.
    pub(crate) fn read_entry(&self) -> Result<Entry, Failure> {
        at_most("caller's operand", self.callers_operand, 1)?;
        let operation = Self { callers_operand: 0, ..*self }.read()?;
        match (self.callers_operand, self.operand) {
            (0, _) => Ok(operation.into()),
            (_, 0) => Ok(Entry::with_callers_operand(operation)),
            (_, operand) => Err(Failure::argument(format!(
                "an entry that takes its caller's operand has operand 0, not {operand}"
            ))),
        }
    }

    pub(crate) fn read(&self) -> Result<Operation, Failure> {
        unused(&self.reserved)?;
        at_most("main operation", self.main, DART_CALL_WITH)?;
        at_most("caller's operand of a message", self.callers_operand, 0)?;
        if let Some(made) = MAINS.get(self.main as usize) {
            at_most("about", self.about, 0)?;
            return Ok(self.add_to(made(self.operand))?.indices(self.indices).mask(self.mask));
        }
        let added = self.add_to(Operation::registers(0))?.control();
        if added.opcode != 0 {
            return Err(Failure::argument("what has `about` has no other fields than that"));
        }
        let made = if self.main == DART_CALL_WITH {
            at_most("entry", self.about, u16::MAX.into())?;
            Operation::call_with(self.about as u16, self.operand)
        } else if self.main == DART_EXCEPTION {
            at_most("about", self.about, ABOUT)?;
            Operation::exception(self.about, self.operand)
        } else {
            let mut control = Operation::registers(self.operand).control();
            control.opcode = self.about;
            control.into()
        };
        Ok(made.indices(self.indices).mask(self.mask))
    }

    /// Adds the other fields to a main operation.
    fn add_to(&self, mut operation: Operation) -> Result<Operation, Failure> {
        at_most("addressing", self.addressing, DART_INDEXED)?;
        operation = match self.addressing {
            DART_INDIRECT => operation.indirect(self.indices[0]),
            DART_INDEXED => operation.indexed(self.indices[0]),
            _ => operation,
        };
        operation = operation.order(one_of(&ORDERS, "order", self.order)?);
        if let Some((step, source, target)) = self.first.read()? {
            operation = operation.first(step, source, target);
        }
        if let Some((step, source, target)) = self.second.read()? {
            operation = operation.second(step, source, target);
        }
        self.condition.add_to(operation)
    }
}

exported! {
/// Stores an operation's opcode in its wire format, as in records and in a connection's status.
fn dart_operation_opcode(operation: &dart_operation, opcode: Out<u32>) {
    opcode.store(operation.read()?.control().opcode)
}
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: dart_step = dart_step { step: 0, source: 0, target: 0 };
    const NOTHING: dart_operation = dart_operation {
        operand: 0,
        main: 0,
        addressing: 0,
        order: 0,
        first: NONE,
        second: NONE,
        condition: dart_condition { comparison: 0, left: 0, right: 0, refuse: 0 },
        about: 0,
        indices: [0; 3],
        mask: 0,
        callers_operand: 0,
        reserved: [0; 3],
    };

    fn read(operation: dart_operation) -> Operation {
        operation.read().unwrap_or_else(|_| panic!("{operation:?} is refused"))
    }

    #[test]
    fn entries_take_their_callers_operand_or_their_own() {
        let writes = dart_operation { main: DART_WRITE, callers_operand: 1, ..NOTHING };
        let entry = |operation: dart_operation| operation.read_entry().map_err(|_| ());
        assert_eq!(entry(writes), Ok(Entry::with_callers_operand(Operation::write(0))));
        let own = dart_operation { callers_operand: 0, operand: 64, ..writes };
        assert_eq!(entry(own), Ok(Operation::write(64).into()));
        assert_eq!(entry(dart_operation { operand: 64, ..writes }), Err(()));
        assert_eq!(entry(dart_operation { callers_operand: 2, ..writes }), Err(()));
    }

    #[test]
    fn fields_match_library_operations() {
        assert_eq!(read(NOTHING), Operation::registers(0));
        let calls = dart_operation { main: DART_CALL_WITH, about: 3, operand: 9, ..NOTHING };
        assert_eq!(read(calls), Operation::call_with(3, 9));
        let append = dart_operation {
            operand: 4096,
            main: DART_WRITE,
            addressing: DART_INDEXED,
            order: DART_COMPARED_FIRST,
            first: dart_step { step: DART_STEP_ADD, source: DART_SOURCE_J, target: DART_TARGET_I },
            second: dart_step { step: DART_STEP_MAXIMUM, source: DART_SOURCE_VALUE, target: DART_TARGET_J },
            condition: dart_condition {
                comparison: DART_COMPARE_SIGNED_LESS,
                left: DART_TARGET_J,
                right: DART_SOURCE_K,
                refuse: 1,
            },
            indices: [3, 4, 5],
            mask: 0xf0,
            ..NOTHING
        };
        let made = Operation::write(4096)
            .indexed(3)
            .order(Order::ComparedFirst)
            .first(Step::Add, Source::J, Target::I)
            .second(Step::Maximum, Source::Value, Target::J)
            .tell_if(Comparison::SignedLess, Target::J, Source::K)
            .refuse_instead()
            .indices([3, 4, 5])
            .mask(0xf0);
        assert_eq!(read(append), made);
        let told = dart_condition { comparison: DART_COMPARE_ALWAYS, ..NOTHING.condition };
        let question = dart_operation { main: DART_ANSWER, operand: 7, condition: told, ..NOTHING };
        assert_eq!(read(question), Operation::answer(7).tell());
        let exception = dart_operation { main: DART_EXCEPTION, about: ABOUT, operand: 5, ..NOTHING };
        assert_eq!(read(exception), Operation::exception(ABOUT, 5));
        let raw = dart_operation { main: DART_OPCODE, about: 0x8000_0001, mask: 3, ..NOTHING };
        let raw = read(raw).control();
        assert_eq!((raw.opcode, raw.mask, raw.operand), (0x8000_0001, 3, 0));
    }

    #[test]
    fn numbers_match_the_card() {
        let mains = [DART_REGISTERS, DART_WRITE, DART_WRITE_MULTIPLE, DART_READ, DART_READ_MULTIPLE];
        for (number, main) in mains.into_iter().chain([DART_ANSWER, DART_CALL, DART_EXCEPTION]).enumerate() {
            assert_eq!(main, number as u32);
            assert_eq!(read(dart_operation { main, ..NOTHING }).control().opcode, main);
        }
        for number in 1..=DART_STEP_REPLACE_IF_EQUAL {
            assert!(step_of(number).is_ok_and(|step| step as u32 == number), "{number}");
        }
        for (all, number) in COMPARISONS.into_iter().zip(1..) {
            assert_eq!(all as u32, number);
        }
        for (all, number) in SOURCES.into_iter().zip(0..) {
            assert_eq!(all as u32, number);
        }
        assert_eq!(ORDERS.map(|order| order as u32), [0, 1, 2, 3]);
        assert_eq!(TARGETS.map(|target| target as u32), [DART_TARGET_I, DART_TARGET_J]);
    }

    #[test]
    fn invalid_operations_are_refused() {
        let step =
            |step, source, target| dart_operation { first: dart_step { step, source, target }, ..NOTHING };
        let condition = |comparison, left, right, refuse| dart_operation {
            condition: dart_condition { comparison, left, right, refuse },
            ..NOTHING
        };
        for wrong in [
            dart_operation { main: DART_CALL_WITH + 1, ..NOTHING },
            dart_operation { main: DART_CALL_WITH, about: 0x1_0000, ..NOTHING },
            dart_operation { callers_operand: 1, ..NOTHING },
            dart_operation { addressing: 3, ..NOTHING },
            dart_operation { order: 4, ..NOTHING },
            dart_operation { about: 1, ..NOTHING },
            dart_operation { main: DART_EXCEPTION, about: ABOUT + 1, ..NOTHING },
            dart_operation { main: DART_EXCEPTION, addressing: DART_INDIRECT, ..NOTHING },
            dart_operation { main: DART_OPCODE, second: step(1, 0, 0).first, ..NOTHING },
            dart_operation { reserved: [0, 0, 1], ..NOTHING },
            dart_operation { second: step(16, 0, 0).first, ..NOTHING },
            step(16, 0, 0),
            step(u32::MAX, 0, 0),
            step(1, 4, 0),
            step(1, 0, 2),
            step(0, 1, 0),
            step(0, 0, 1),
            condition(8, 0, 0, 0),
            condition(1, 2, 0, 0),
            condition(1, 0, 4, 0),
            condition(1, 0, 0, 2),
            condition(0, 0, 0, 1),
            condition(0, 1, 0, 0),
            condition(7, 0, 1, 0),
        ] {
            assert!(wrong.read().is_err(), "{wrong:?}");
        }
    }
}
