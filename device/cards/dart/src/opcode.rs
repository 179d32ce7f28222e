//! The fields of an opcode (Figure 2): main operation, addressing, two register operations, a
//! comparison, and their order.

use hamlyn_abi::dart::control::*;

/// The main operation, which comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Main {
    /// Does nothing.
    None,
    /// Writes a block.
    Write,
    /// Writes blocks.
    WriteMultiple,
    /// Answers with a block.
    Read,
    /// Answers with blocks.
    ReadMultiple,
    /// Answers with register `i`.
    Answer,
    /// Executes an entry of the receiver's program.
    Call(Call),
    /// Is handled by the software.
    Exception,
}

/// The fields of a CALL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The CALL is a question, and has paid for an answer.
    pub asks: bool,
    /// The number of the entry. `None` if that is in the operand.
    pub entry: Option<u16>,
}

impl Main {
    /// Returns whether it writes memory (`true`) or reads it (`false`). Returns `None` if it does
    /// neither, and there is no address.
    #[must_use]
    pub fn writes(self) -> Option<bool> {
        match self {
            Main::Write | Main::WriteMultiple => Some(true),
            Main::Read | Main::ReadMultiple => Some(false),
            Main::None | Main::Answer | Main::Call(_) | Main::Exception => None,
        }
    }

    /// Returns whether it uses memory, so that there is an address.
    #[must_use]
    pub fn has_address(self) -> bool {
        self.writes().is_some()
    }

    /// Returns whether it is answered. For a CALL, the program decides that.
    #[must_use]
    pub fn is_answered(self) -> bool {
        matches!(self, Main::Read | Main::ReadMultiple | Main::Answer)
    }
}

impl Call {
    /// Decodes the fields of a CALL other than the main operation. Returns `None` if they are
    /// invalid.
    fn decode(mut rest: u32) -> Option<Self> {
        let asks = take(&mut rest, DART_CALL_ASKS.trailing_zeros(), 1) != 0;
        let has_operand = take(&mut rest, DART_CALL_OPERAND.trailing_zeros(), 1) != 0;
        let entry = has_operand.then(|| take(&mut rest, DART_CALL_ENTRY_SHIFT, 16) as u16);
        (rest == 0).then_some(Self { asks, entry })
    }
}

/// How the address is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// The address is the operand.
    Direct,
    /// The address is in register `i`.
    Indirect,
    /// The address is register `i` plus the operand.
    Indexed,
}

/// When the address is generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Before the register operations.
    First,
    /// Between them.
    Between,
    /// After them.
    Behind,
    /// After the comparison, which comes first.
    Compared,
}

/// The source of a step's second input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The message's operand.
    Operand,
    /// The result of the previous step.
    Value,
    /// Register `j`.
    J,
    /// Register `k`.
    K,
}

/// The register that a step operates on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Register `i`.
    I,
    /// Register `j`.
    J,
}

/// A register operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// `DART_OP_*`, but not `DART_OP_NONE`.
    pub(crate) op: u32,
    pub(crate) source: Source,
    pub(crate) target: Target,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// `DART_COMPARE_*`, but not `DART_COMPARE_NONE`.
    pub(crate) compare: u32,
    pub(crate) left: Target,
    pub(crate) right: Source,
    /// Whether the message is refused if the comparison holds. Otherwise there is an event.
    pub(crate) refuses: bool,
}

/// An opcode that the card supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode {
    /// The main operation.
    pub main: Main,
    pub(crate) addressing: Addressing,
    pub(crate) order: Order,
    pub(crate) first: Option<Operation>,
    pub(crate) second: Option<Operation>,
    pub(crate) comparison: Option<Comparison>,
}

/// Takes `bits` bits out of a word, from `shift` on, and returns them.
fn take(word: &mut u32, shift: u32, bits: u32) -> u32 {
    let mask = (1 << bits) - 1;
    let field = *word >> shift & mask;
    *word &= !(mask << shift);
    field
}

fn source(field: u32) -> Source {
    match field {
        DART_SOURCE_OPERAND => Source::Operand,
        DART_SOURCE_VALUE => Source::Value,
        DART_SOURCE_J => Source::J,
        _ => Source::K,
    }
}

fn target(field: u32) -> Target {
    if field == DART_TARGET_I { Target::I } else { Target::J }
}

impl Operation {
    /// Decodes a register operation. Fails if there is no such operation. Returns `Ok(None)` if
    /// none is requested.
    fn decode(word: u32) -> Result<Option<Self>, ()> {
        let mut rest = word;
        let op = take(&mut rest, 0, 4);
        let has_source = !matches!(op, DART_OP_INCREMENT | DART_OP_DECREMENT);
        let from = take(&mut rest, DART_SOURCE_SHIFT, 2);
        let operation = Self { op, source: source(from), target: target(rest >> DART_TARGET_SHIFT) };
        match op {
            DART_OP_NONE if word == 0 => Ok(None),
            DART_OP_NONE => Err(()),
            _ if has_source || from == 0 => Ok(Some(operation)),
            _ => Err(()),
        }
    }

    pub(crate) fn reads(&self) -> Option<Source> {
        (!matches!(self.op, DART_OP_INCREMENT | DART_OP_DECREMENT)).then_some(self.source)
    }
}

impl Comparison {
    /// Decodes a comparison, with results like those of [`Operation::decode`].
    fn decode(compare: u32, left: u32, right: u32, refuses: bool) -> Result<Option<Self>, ()> {
        let has_sides = left != 0 || right != 0;
        match compare {
            DART_COMPARE_NONE if has_sides || refuses => Err(()),
            DART_COMPARE_NONE => Ok(None),
            DART_COMPARE_ALWAYS if has_sides => Err(()),
            _ => Ok(Some(Self { compare, left: target(left), right: source(right), refuses })),
        }
    }

    pub(crate) fn has_sides(&self) -> bool {
        self.compare != DART_COMPARE_ALWAYS
    }
}

impl Opcode {
    /// Returns the number of primitives that it executes, four at most (section 3).
    #[must_use]
    pub fn primitives(&self) -> u64 {
        let steps =
            [self.main.has_address(), self.first.is_some(), self.second.is_some(), self.comparison.is_some()];
        steps.into_iter().map(u64::from).sum()
    }

    /// Decodes an opcode. Returns `None` if the card has no such operation.
    #[must_use]
    pub fn decode(word: u32) -> Option<Self> {
        let mut rest = word;
        let main = match take(&mut rest, 0, 3) {
            DART_MAIN_NONE => Main::None,
            DART_MAIN_WRITE => Main::Write,
            DART_MAIN_WRITE_MULTIPLE => Main::WriteMultiple,
            DART_MAIN_READ => Main::Read,
            DART_MAIN_READ_MULTIPLE => Main::ReadMultiple,
            DART_MAIN_ANSWER => Main::Answer,
            DART_MAIN_CALL => Main::Call(Call::decode(std::mem::take(&mut rest))?),
            // The other fields are for the software.
            _ => {
                rest = 0;
                Main::Exception
            }
        };
        let addressing = match take(&mut rest, DART_ADDRESSING_SHIFT, 2) {
            DART_ADDRESSING_DIRECT => Addressing::Direct,
            DART_ADDRESSING_INDIRECT => Addressing::Indirect,
            DART_ADDRESSING_INDEXED => Addressing::Indexed,
            _ => return None,
        };
        let order = match take(&mut rest, DART_ORDER_SHIFT, 2) {
            DART_ORDER_FIRST => Order::First,
            DART_ORDER_BETWEEN => Order::Between,
            DART_ORDER_BEHIND => Order::Behind,
            _ => Order::Compared,
        };
        let first = Operation::decode(take(&mut rest, DART_FIRST_SHIFT, 7)).ok()?;
        let second = Operation::decode(take(&mut rest, DART_SECOND_SHIFT, 7)).ok()?;
        let compare = take(&mut rest, DART_COMPARE_SHIFT, 3);
        let (left, right) = (take(&mut rest, DART_LEFT_SHIFT, 1), take(&mut rest, DART_RIGHT_SHIFT, 2));
        let refuses = rest & DART_REFUSE != 0;
        let comparison = Comparison::decode(compare, left, right, refuses).ok()?;
        let stray = rest & !DART_REFUSE != 0
            || !main.has_address() && (addressing, order) != (Addressing::Direct, Order::First);
        (!stray).then_some(Self { main, addressing, order, first, second, comparison })
    }
}
