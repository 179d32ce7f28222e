//! The Operation Logic (section 3, Figure 5): at most one address generation, two register
//! operations and one comparison.

use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::trap::*;

use super::opcode::{Addressing, Comparison, Opcode, Operation, Order, Source, Target};

/// Why a message is not executed. Such a message changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// A register that the message uses is not in the window.
    Index,
    /// The message's comparison holds, and the message is then to be refused.
    Refused,
}

impl Trap {
    /// Returns the number of the trap: `DART_TRAP_*`.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Trap::Index => DART_TRAP_INDEX,
            Trap::Refused => DART_TRAP_REFUSED,
        }
    }
}

/// A register of the window that gets another value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Index of the register in the window.
    pub index: u8,
    /// Its new value.
    pub value: u64,
}

/// The results of a message's steps, none of which is applied yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executed {
    /// The generated address, or 0 if there is none.
    pub address: u64,
    /// Registers that change, in the order of the steps.
    pub written: [Option<Written>; 2],
    /// Whether there is an event at the end.
    pub event: bool,
    /// Register `i` before and after the message, or 0 if it is not used.
    pub answer: [u64; 2],
}

/// Executes the steps of a message. `window` is the receiver's window of registers. Fails with a
/// trap if the message must not be executed.
pub fn execute(opcode: &Opcode, control: &DartControl, window: &[u64]) -> Result<Executed, Trap> {
    let mut latch = Latch { control, window, written: [None; 2], value: 0 };
    if !uses(opcode).zip(control.indices).all(|(used, index)| !used || usize::from(index) < window.len()) {
        return Err(Trap::Index);
    }
    let before = latch.register(0);
    let (first, second) = (opcode.first.as_ref(), opcode.second.as_ref());
    let mut address = 0;
    let mut generate = |latch: &mut Latch<'_>| {
        if opcode.main.has_address() {
            address = latch.generate(opcode.addressing);
        }
    };
    let holds = match opcode.order {
        Order::First | Order::Compared => {
            let early = opcode.order == Order::Compared && latch.holds(opcode.comparison.as_ref());
            generate(&mut latch);
            latch.change(0, first);
            latch.change(1, second);
            early || opcode.order == Order::First && latch.holds(opcode.comparison.as_ref())
        }
        Order::Between => {
            latch.change(0, first);
            generate(&mut latch);
            latch.change(1, second);
            latch.holds(opcode.comparison.as_ref())
        }
        Order::Behind => {
            latch.change(0, first);
            latch.change(1, second);
            generate(&mut latch);
            latch.holds(opcode.comparison.as_ref())
        }
    };
    if holds && opcode.comparison.is_some_and(|comparison| comparison.refuses) {
        return Err(Trap::Refused);
    }
    Ok(Executed { address, written: latch.written, event: holds, answer: [before, latch.register(0)] })
}

/// Returns which of the indices `i`, `j` and `k` any step uses.
fn uses(opcode: &Opcode) -> impl Iterator<Item = bool> {
    let mut used = [false; 3];
    used[0] |= opcode.main == super::opcode::Main::Answer || opcode.addressing != Addressing::Direct;
    let mut note = |target: Option<Target>, source: Option<Source>| {
        used[0] |= target == Some(Target::I);
        used[1] |= target == Some(Target::J) || source == Some(Source::J);
        used[2] |= source == Some(Source::K);
    };
    for operation in [opcode.first, opcode.second].into_iter().flatten() {
        note(Some(operation.target), operation.reads());
    }
    if let Some(comparison) = opcode.comparison.filter(Comparison::has_sides) {
        note(Some(comparison.left), Some(comparison.right));
    }
    used.into_iter()
}

/// The state that the steps of a message read and change.
struct Latch<'a> {
    control: &'a DartControl,
    window: &'a [u64],
    written: [Option<Written>; 2],
    /// The result of the previous step.
    value: u64,
}

impl Latch<'_> {
    /// Returns the register of index `i`, `j` or `k`, with the changes of the steps so far.
    fn register(&self, which: usize) -> u64 {
        let index = self.control.indices[which];
        let written = self.written.iter().rev().flatten().find(|written| written.index == index);
        let kept = || self.window.get(usize::from(index)).copied().unwrap_or_default();
        written.map_or_else(kept, |written| written.value)
    }

    fn target(&self, target: Target) -> u64 {
        self.register(usize::from(target == Target::J))
    }

    fn source(&self, source: Source) -> u64 {
        match source {
            Source::Operand => self.control.operand,
            Source::Value => self.value,
            Source::J => self.register(1),
            Source::K => self.register(2),
        }
    }

    fn generate(&mut self, addressing: Addressing) -> u64 {
        let operand = self.control.operand;
        self.value = match addressing {
            Addressing::Direct => operand,
            Addressing::Indirect => self.register(0),
            Addressing::Indexed => self.register(0).wrapping_add(operand),
        };
        self.value
    }

    /// Executes the first or the second register operation.
    fn change(&mut self, number: usize, operation: Option<&Operation>) {
        let Some(operation) = operation else { return };
        let (target, source) = (self.target(operation.target), self.source(operation.source));
        let value = match operation.op {
            DART_OP_MOVE => source,
            DART_OP_NOT => !source,
            DART_OP_NEGATE => source.wrapping_neg(),
            DART_OP_INCREMENT => target.wrapping_add(1),
            DART_OP_DECREMENT => target.wrapping_sub(1),
            DART_OP_ADD => target.wrapping_add(source),
            DART_OP_SUBTRACT => target.wrapping_sub(source),
            DART_OP_AND => target & source,
            DART_OP_OR => target | source,
            DART_OP_XOR => target ^ source,
            DART_OP_MINIMUM => target.min(source),
            DART_OP_MAXIMUM => target.max(source),
            DART_OP_LEFT => target << (source % 64),
            DART_OP_RIGHT => target >> (source % 64),
            DART_OP_REPLACE if target == self.control.operand => source,
            _ => target,
        };
        let index = self.control.indices[usize::from(operation.target == Target::J)];
        self.written[number] = Some(Written { index, value });
        self.value = value;
    }

    fn holds(&self, comparison: Option<&Comparison>) -> bool {
        let Some(comparison) = comparison else { return false };
        let (left, right) = (self.target(comparison.left), self.source(comparison.right));
        match comparison.compare {
            DART_COMPARE_EQUAL => left == right,
            DART_COMPARE_UNEQUAL => left != right,
            DART_COMPARE_LESS => left < right,
            DART_COMPARE_NOT_MORE => left <= right,
            DART_COMPARE_SIGNED_LESS => (left as i64) < right as i64,
            DART_COMPARE_SIGNED_NOT_MORE => left as i64 <= right as i64,
            _ => true,
        }
    }
}
