//! Whole messages, from the Send Registers to their results, do what `docs/dart.md` specifies. That
//! holds for any words, registers, programs and rights, and for any places of pages. It also holds
//! if these change while a message waits.

use hamlyn_abi::dart::command::*;
use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use hamlyn_abi::dart::queue::*;
use hamlyn_test_host::Commands;
use proptest::prelude::*;
use zerocopy::{FromZeros, IntoBytes};

use crate::calling::{Entry, is_question};
use crate::drawing::{index, number, opcode};
use crate::interpreter;
use crate::reference::{Message, Outcome, Page, Receiver};
use crate::support::*;

/// Number of pages that the endpoint has a part of, and its length in bytes.
const PAGES: u64 = 4;
const LENGTH: u64 = 3 * PAGE;
/// The place of the window, and of the program.
const WINDOW: u32 = 40;
const PROGRAM: (u32, u32) = (8, 4);
/// Offset in the requester's endpoint at which the answer is written.
const ANSWERED: u64 = 6 * PAGE;
/// Number of records of the exception queue, which has room for any message here.
const EXCEPTIONS: u32 = 128;
const ABSENT: u64 = 1 << 44;

/// A message, as plain numbers.
type Words = (u32, u8, [u8; 3], u64, u64, u16);

/// A change of a page while a message waits: the page is found, or moves.
type Shift = (bool, u64);

#[derive(Debug, Clone)]
struct Case {
    registers: Vec<u64>,
    program: Vec<Entry>,
    pages: Vec<Page>,
    rights: (bool, bool),
    messages: Vec<(Words, Vec<Shift>)>,
}

/// Returns an address that is mostly inside, and often at the edge of a page.
fn address(any: u64) -> u64 {
    match any % 8 {
        0 => number(any >> 3),
        1..4 => ((any >> 3) % (PAGES + 1) * PAGE).wrapping_sub(BASE % PAGE + (any >> 20) % 80),
        _ => (any >> 3) % LENGTH / 4 * 4,
    }
}

/// Returns an opcode, mostly one that the card has.
fn word(any: u32) -> u32 {
    match any % 16 {
        0 => any,
        1 => DART_MAIN_CALL | any >> 4 & DART_CALL_ASKS,
        3 => {
            DART_MAIN_CALL
                | any >> 4 & DART_CALL_ASKS
                | DART_CALL_OPERAND
                | ((any >> 8) % 6) << DART_CALL_ENTRY_SHIFT
        }
        2 => DART_MAIN_EXCEPTION | any,
        _ => opcode(any.rotate_left(4)),
    }
}

fn page(any: u8) -> Page {
    match any % 16 {
        0 => Page::Absent,
        1 => Page::ReadOnly,
        2 => Page::Unreachable,
        _ => Page::Writable,
    }
}

fn entry((any, operand): (u32, u64)) -> Entry {
    let is_callers = operand % 3 == 0;
    Entry { opcode: word(any), is_callers, operand: if is_callers { 0 } else { address(operand) } }
}

fn cases() -> impl Strategy<Value = Case> {
    let words = (any::<u32>(), any::<u8>(), any::<[u8; 3]>(), any::<u64>(), any::<u64>(), any::<u16>());
    let shifts = proptest::collection::vec((any::<bool>(), 0..PAGES), 0..4);
    let state = (any::<[u64; 6]>(), 0..=6_usize, any::<[(u32, u64); 4]>(), any::<[u8; 4]>(), any::<u8>());
    (state, proptest::collection::vec((words, shifts), 1..6)).prop_map(
        |((registers, size, program, pages, rights), messages)| Case {
            registers: registers[..size].iter().map(|any| address(*any)).collect(),
            program: program.map(entry).to_vec(),
            pages: pages.map(page).to_vec(),
            rights: (rights % 8 != 0, rights / 8 % 8 != 0),
            messages,
        },
    )
}

/// Returns a message. If it is a question, its data sends the answer to the place where the test
/// expects it.
fn message((any, mask, indices, operand, data, length): Words) -> Message {
    let opcode = word(any);
    let is_call = interpreter::is_implemented(opcode) && opcode & 7 == DART_MAIN_CALL;
    let names_entry = is_call && opcode & DART_CALL_OPERAND == 0;
    let operand = if names_entry { operand % 6 } else { address(operand) };
    // A call that reads a block asks for no more.
    let length = if is_call && length % 4 < 2 { 0 } else { u32::from(length) % 6000 };
    let mut block = [0; 32];
    let multiple = opcode & 7 == DART_MAIN_READ_MULTIPLE || is_call && length > 0;
    let main = if multiple { DART_MAIN_WRITE_MULTIPLE } else { DART_MAIN_WRITE };
    block[..16].copy_from_slice(control(main, ANSWERED).as_bytes());
    block[16..20].copy_from_slice(&length.to_le_bytes());
    block[20..28].copy_from_slice(&data.to_le_bytes());
    let is_long_call = is_call && !is_question(opcode) && length > 32;
    let is_softwares = !interpreter::is_implemented(opcode) || opcode & 7 == DART_MAIN_EXCEPTION;
    let is_long = is_long_call
        || is_softwares && length > 32
        || !is_softwares && opcode & 7 == DART_MAIN_WRITE_MULTIPLE;
    let body = if is_long { (0..length as u64).map(|at| (at ^ data) as u8).collect() } else { Vec::new() };
    let logic = interpreter::Message { opcode, indices: indices.map(index), operand };
    Message { logic, mask: if mask % 2 == 0 { 0 } else { mask }, block, body }
}

/// Two hosts, one of which sends to the other, and the state of the receiver.
struct Stage {
    one: Host,
    other: Host,
    state: u64,
    queues: [u64; 2],
    receiver: Receiver,
    traps: u32,
}

impl Stage {
    fn new(case: &Case) -> Self {
        let (mut one, mut other) = (Host::new(0), Host::new(1));
        one.endpoint(0, 16 * PAGE);
        other.endpoint(0, LENGTH);
        let queues = [other.queue(0, 0), other.queue_of(EXCEPTIONS, 1, DART_QUEUE_IMMEDIATE)];
        let state = one.connection(1, 1, END);
        let flag = |is: bool, flag: u32| if is { flag } else { 0 };
        let flags = flag(case.rights.0, DART_CONNECTION_WRITE) | flag(case.rights.1, DART_CONNECTION_READ);
        let registers = (WINDOW, case.registers.len() as u32);
        other.connection(1, 0, End { registers, program: PROGRAM, queues: [0, 1], flags, ..END });
        // This connection sees all registers.
        other.connection(2, 0, End { registers: (0, 256), ..END });
        (0..256).for_each(|number| other.set_register(2, number, u64::from(number) << 40));
        for (number, value) in (0..).zip(&case.registers) {
            other.set_register(1, number, *value);
        }
        let mut body = DartProgram { count: PROGRAM.1, ..DartProgram::new_zeroed() };
        for (entry, is) in body.entries.iter_mut().zip(&case.program) {
            let flags = if is.is_callers { DART_ENTRY_OPERAND } else { 0 };
            *entry = DartEntry { opcode: is.opcode, flags, operand: is.operand };
        }
        other.run(DART_COMMAND_SET_PROGRAM, PROGRAM.0, &body).unwrap();
        other.write_virtual(0, &pattern(LENGTH));
        let receiver = Receiver {
            registers: case.registers.clone(),
            memory: pattern(LENGTH),
            first: BASE % PAGE,
            pages: case.pages.clone(),
            program: case.program.clone(),
            may_write: case.rights.0,
            may_read: case.rights.1,
        };
        let mut stage = Self { one, other, state, queues, receiver, traps: 0 };
        stage.other.serves = false;
        stage
    }

    /// Sets the answers of the receiver's driver for its pages. The pages that are there are in
    /// `frames`.
    fn show(&mut self, frames: &Pages) {
        for (number, kind) in (BASE / PAGE..).zip(self.receiver.pages.clone()) {
            let frame = frames[&number].0;
            match kind {
                Page::Writable => self.other.pages.insert(number, (frame, true)),
                Page::ReadOnly => self.other.pages.insert(number, (frame, false)),
                Page::Absent => self.other.pages.remove(&number),
                Page::Unreachable => self.other.pages.insert(number, (ABSENT + number % 8 * PAGE, true)),
            };
        }
    }

    fn check(&mut self, message: &Message, shifts: &[Shift]) -> Result<(), TestCaseError> {
        let Message { logic, mask, block, body } = message;
        let control =
            DartControl { opcode: logic.opcode, mask: *mask, indices: logic.indices, operand: logic.operand };
        let data = if body.is_empty() { &block[..] } else { body };
        self.one.write_virtual(0, data);
        // A WRITE_MULTIPLE of nothing has an empty block.
        let is_empty = body.is_empty() && logic.opcode & 7 == DART_MAIN_WRITE_MULTIPLE;
        let is_long = is_empty && interpreter::is_implemented(logic.opcode);
        let mut message = message.clone();
        if is_long || !body.is_empty() {
            // The first cell has the first block of a longer body.
            message.block = body.first_chunk().copied().filter(|_| body.len() > 32).unwrap_or_default();
        }
        let outcome = self.receiver.take(&message);
        let length = if is_long { 0 } else { data.len() as u64 };
        self.one.write_virtual(ANSWERED, &vec![0x55; 6000]);
        self.one.send(1, control, 0, length);
        exchange(&mut self.one, &mut self.other);
        for (is_found, which) in shifts {
            self.shift(*is_found, BASE / PAGE + which);
            exchange(&mut self.one, &mut self.other);
        }
        self.other.serves = true;
        self.other.fill(1);
        exchange(&mut self.one, &mut self.other);
        self.other.serves = false;
        self.compare(control, &message, &outcome)
    }

    /// Answers for a page that is waited for, or moves a page, if it is there. The old frame of a
    /// moved page must not be used.
    fn shift(&mut self, is_found: bool, number: u64) {
        if is_found {
            let misses = self.other.misses(1);
            let miss: Vec<u64> = misses.into_iter().filter(|miss| miss / PAGE == number).collect();
            return self.other.fill_pages(&miss);
        }
        let Some((frame, writable)) = self.other.pages.get(&number).copied() else { return };
        self.other.invalidate(number, 1);
        if frame < ABSENT {
            let fresh = self.other.pages(1);
            let bytes = self.other.bytes(frame, PAGE as usize);
            self.other.put(fresh, &bytes);
            self.other.put(frame, &[0xee; PAGE as usize]);
            self.other.pages.insert(number, (fresh, writable));
        }
    }

    fn compare(
        &mut self,
        control: DartControl,
        message: &Message,
        outcome: &Outcome,
    ) -> Result<(), TestCaseError> {
        let events = self.other.take_records(self.queues[0]);
        let whole = self.other.take_exceptions(self.queues[1], EXCEPTIONS);
        for exception in &whole {
            prop_assert!(data_of(exception) == message.body);
        }
        let exceptions: Vec<DartRecord> = whole.into_iter().map(|(record, _)| record).collect();
        let kinds = |records: &[DartRecord]| records.iter().map(|record| record.kind).collect::<Vec<_>>();
        let said = (kinds(&events), kinds(&exceptions));
        let expected = match outcome {
            Outcome::Trap(trap) => (vec![], vec![DART_RECORD_TRAP + trap]),
            Outcome::Exception => (vec![], vec![DART_RECORD_EXCEPTION]),
            Outcome::Done { event: true, .. } => (vec![DART_RECORD_COMPARED], vec![]),
            Outcome::Done { event: false, .. } => (vec![], vec![]),
        };
        prop_assert_eq!(said, expected);
        for record in events.iter().chain(&exceptions) {
            prop_assert_eq!(record.control, control);
            prop_assert_eq!(record.data.as_bytes(), &message.block);
            prop_assert_eq!(record.length as usize, message.body.len());
        }
        let word = |place: u32| self.one.word(self.state + u64::from(place));
        if let Outcome::Trap(trap) = outcome {
            self.traps += 1;
            prop_assert_eq!((word(DART_STATE_TRAP), word(DART_STATE_TRAP_OPCODE)), (*trap, control.opcode));
        }
        prop_assert_eq!(word(DART_STATE_TRAPS), self.traps);
        let mut answered = match outcome {
            // The answer to a call that asks for no bytes is a block. The block is zero if the call
            // reads nothing.
            Outcome::Done { answer: Some(answer), .. }
                if answer.is_empty() && control.opcode & 7 == DART_MAIN_CALL =>
            {
                vec![0; 32]
            }
            Outcome::Done { answer: Some(answer), .. } => answer.clone(),
            _ => Vec::new(),
        };
        answered.resize(6000, 0x55);
        prop_assert_eq!(self.one.read_virtual(ANSWERED, 6000), answered);
        for number in 0..256_u32 {
            let own = number.checked_sub(WINDOW).and_then(|at| self.receiver.registers.get(at as usize));
            let is = self.other.register(2, number);
            prop_assert_eq!(is, own.copied().unwrap_or(u64::from(number) << 40), "register {}", number);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whole_messages_do_what_the_document_specifies(case in cases()) {
        let mut stage = Stage::new(&case);
        let frames = stage.other.pages.clone();
        stage.show(&frames);
        for (words, shifts) in &case.messages {
            stage.check(&message(*words), shifts)?;
        }
        // The bytes of pages that are not there are where they were.
        let mut pages = frames;
        pages.extend(stage.other.pages.iter().filter(|(_, (frame, _))| *frame < ABSENT));
        stage.other.pages = pages;
        let memory = stage.receiver.memory.clone();
        prop_assert!(stage.other.read_virtual(0, LENGTH) == memory, "memory is another");
    }
}
