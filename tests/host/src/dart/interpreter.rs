//! What `docs/dart.md` specifies that a message does to registers, word for word. Bits are taken
//! from its table of opcode fields.
//!
//! The author of this interpreter also wrote `docs/dart.md`, the card, the tests' reference and the
//! simulation. All of them share one reading of the paper's Figure 2. So agreement between them
//! finds slips of the code, but not a wrong reading of the paper.

const READS_AND_WRITES: std::ops::RangeInclusive<u32> = 1..=4;
const ANSWER: u32 = 5;
const CALL: u32 = 6;
const EXCEPTION: u32 = 7;

/// The parts of a message that the Operation Logic uses.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// The opcode.
    pub opcode: u32,
    /// `i`, `j` and `k`.
    pub indices: [u8; 3],
    /// The operand.
    pub operand: u64,
}

/// Why a message has no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trap {
    /// The card does not have the opcode.
    Unimplemented,
    /// An index names no register of the window.
    Index,
    /// Its comparison holds, and the opcode says that it is refused then.
    Refused,
}

/// The result of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The registers of the window afterwards.
    pub registers: Vec<u64>,
    /// The address, if the message uses memory.
    pub address: Option<u64>,
    /// Whether its comparison holds.
    pub event: bool,
    /// Register `i` before and after, if the message is an ANSWER.
    pub answer: Option<[u64; 2]>,
}

#[derive(Clone, Copy)]
enum Step {
    Address,
    /// The seven bits of a register operation.
    Operation(u32),
    Comparison,
}

/// Returns bits `low` to `high` of a word.
pub(super) fn bits(word: u32, low: u32, high: u32) -> u32 {
    word >> low & ((1 << (high - low + 1)) - 1)
}

/// Returns a number whose unsigned order is the order of the signed numbers.
fn signed(number: u64) -> u64 {
    number ^ 1 << 63
}

/// Returns whether an opcode is the card's, and not the software's.
pub fn is_implemented(opcode: u32) -> bool {
    let main = bits(opcode, 0, 2);
    if main == CALL {
        let has_operand = bits(opcode, 4, 4) == 1;
        return bits(opcode, 5, 15) == 0 && (has_operand || bits(opcode, 16, 31) == 0);
    }
    if main == EXCEPTION {
        return true;
    }
    let unnamed = [7, 15, 23, 31].iter().any(|bit| bits(opcode, *bit, *bit) != 0);
    let addressed = READS_AND_WRITES.contains(&main) && bits(opcode, 3, 4) != 3 || bits(opcode, 3, 6) == 0;
    let operations =
        [bits(opcode, 8, 14), bits(opcode, 16, 22)].iter().all(|operation| match bits(*operation, 0, 3) {
            0 => *operation == 0,
            4 | 5 => bits(*operation, 4, 5) == 0,
            _ => true,
        });
    let comparison = match bits(opcode, 24, 26) {
        0 => bits(opcode, 27, 30) == 0,
        7 => bits(opcode, 27, 29) == 0,
        _ => true,
    };
    !unnamed && addressed && operations && comparison
}

/// Returns the steps of an opcode, in their order.
fn steps(opcode: u32) -> Vec<Step> {
    let address = READS_AND_WRITES.contains(&bits(opcode, 0, 2)).then_some(Step::Address);
    let operation =
        |low| Some(bits(opcode, low, low + 6)).filter(|operation| *operation != 0).map(Step::Operation);
    let (first, second) = (operation(8), operation(16));
    let comparison = (bits(opcode, 24, 26) != 0).then_some(Step::Comparison);
    let order = match bits(opcode, 5, 6) {
        0 => [address, first, second, comparison],
        1 => [first, address, second, comparison],
        2 => [first, second, address, comparison],
        _ => [comparison, address, first, second],
    };
    order.into_iter().flatten().collect()
}

/// Returns which of `i`, `j` and `k` (0, 1 and 2) a step uses.
fn used(step: Step, opcode: u32) -> Vec<usize> {
    let source = |number: u32| (number >= 2).then(|| number as usize - 1);
    match step {
        Step::Address => Some(0).filter(|_| bits(opcode, 3, 4) != 0).into_iter().collect(),
        Step::Operation(operation) => [Some(bits(operation, 6, 6) as usize), source(bits(operation, 4, 5))]
            .into_iter()
            .flatten()
            .collect(),
        Step::Comparison if bits(opcode, 24, 26) == 7 => Vec::new(),
        Step::Comparison => [Some(bits(opcode, 27, 27) as usize), source(bits(opcode, 28, 29))]
            .into_iter()
            .flatten()
            .collect(),
    }
}

/// The state between the steps of one message.
struct Latches {
    message: Message,
    registers: Vec<u64>,
    value: u64,
    address: Option<u64>,
    holds: bool,
}

impl Latches {
    fn place(&self, letter: u32) -> usize {
        self.message.indices[letter as usize].into()
    }

    fn source(&self, number: u32) -> u64 {
        match number {
            0 => self.message.operand,
            1 => self.value,
            _ => self.registers[self.place(number - 1)],
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Address => self.generate(),
            Step::Operation(operation) => self.operate(operation),
            Step::Comparison => self.compare(),
        }
    }

    fn generate(&mut self) {
        let operand = self.message.operand;
        self.value = match bits(self.message.opcode, 3, 4) {
            0 => operand,
            1 => self.registers[self.place(0)],
            _ => self.registers[self.place(0)].wrapping_add(operand),
        };
        self.address = Some(self.value);
    }

    fn operate(&mut self, operation: u32) {
        let place = self.place(bits(operation, 6, 6));
        let (t, s) = (self.registers[place], self.source(bits(operation, 4, 5)));
        // In 128 bits nothing wraps around. The result is taken modulo 2^64.
        let (wide_t, wide_s, modulus) = (u128::from(t), u128::from(s), 1_u128 << 64);
        let made = match bits(operation, 0, 3) {
            1 => wide_s,
            2 => modulus - 1 - wide_s,
            3 => modulus - wide_s,
            4 => wide_t + 1,
            5 => wide_t + modulus - 1,
            6 => wide_t + wide_s,
            7 => wide_t + modulus - wide_s,
            8 => wide_t & wide_s,
            9 => wide_t | wide_s,
            10 => wide_t ^ wide_s,
            11 => wide_t.min(wide_s),
            12 => wide_t.max(wide_s),
            13 => wide_t << (s % 64),
            14 => wide_t >> (s % 64),
            15 if t == self.message.operand => wide_s,
            _ => wide_t,
        };
        self.value = (made % modulus) as u64;
        self.registers[place] = self.value;
    }

    fn compare(&mut self) {
        let opcode = self.message.opcode;
        let comparison = bits(opcode, 24, 26);
        if comparison == 7 {
            self.holds = true;
            return;
        }
        let left = self.registers[self.place(bits(opcode, 27, 27))];
        let right = self.source(bits(opcode, 28, 29));
        self.holds = match comparison {
            1 => left == right,
            2 => left != right,
            3 => left < right,
            4 => left <= right,
            5 => signed(left) < signed(right),
            _ => signed(left) <= signed(right),
        };
    }
}

/// Interprets a message other than a CALL or an EXCEPTION. A CALL is another message, and nothing
/// of an EXCEPTION is executed.
pub fn interpret(message: Message, registers: &[u64]) -> Result<Made, Trap> {
    let opcode = message.opcode;
    if !is_implemented(opcode) {
        return Err(Trap::Unimplemented);
    }
    let is_answer = bits(opcode, 0, 2) == ANSWER;
    let steps = steps(opcode);
    let mut letters: Vec<usize> = steps.iter().flat_map(|step| used(*step, opcode)).collect();
    letters.extend(is_answer.then_some(0));
    if letters.iter().any(|letter| usize::from(message.indices[*letter]) >= registers.len()) {
        return Err(Trap::Index);
    }
    let mut latches =
        Latches { message, registers: registers.to_vec(), value: 0, address: None, holds: false };
    for step in steps {
        latches.step(step);
    }
    if latches.holds && bits(opcode, 30, 30) == 1 {
        return Err(Trap::Refused);
    }
    let place = latches.place(0);
    let answer = is_answer.then(|| [registers[place], latches.registers[place]]);
    Ok(Made { registers: latches.registers, address: latches.address, event: latches.holds, answer })
}
