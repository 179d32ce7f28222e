//! The compound operations of `docs/dart.md`, message by message.

use super::both::both;
use super::endpoint::{BLOCK, Endpoint};
use super::interpreter::{Made, Message, Trap};
use super::opcodes::*;

/// Returns a message for registers 0, 1 and 2 of the window, which are `i`, `j` and `k` here.
fn message(opcode: u32, operand: u64) -> Message {
    Message { opcode, indices: [0, 1, 2], operand }
}

/// A window that receives messages, one after the other.
struct Window(Vec<u64>);

impl Window {
    /// Executes a message, and keeps the registers. Returns the result.
    fn take(&mut self, message: Message) -> Made {
        let made = both(message, &self.0).unwrap();
        self.0.clone_from(&made.registers);
        made
    }

    /// Returns the values of an ANSWER: `<i>` before and after.
    fn ask(&mut self, message: Message) -> [u64; 2] {
        self.take(message).answer.unwrap()
    }
}

#[test]
fn indirect_store_with_postincrement_appends() {
    let store = WRITE | INDEXED | first(operation(ADD, target::I, source::J));
    let mut window = Window(vec![0, 40]);
    let addresses: Vec<_> = (0..4).map(|_| window.take(message(store, 0x100)).address.unwrap()).collect();
    assert_eq!(addresses, [0x100, 0x128, 0x150, 0x178]);
    assert_eq!(window.0, [160, 40]);
}

#[test]
fn appending_to_a_ring_wraps() {
    let append = WRITE
        | INDEXED
        | first(operation(ADD, target::I, source::J))
        | second(operation(AND, target::I, source::K));
    let mut window = Window(vec![64, 32, 127]);
    let mut endpoint = Endpoint(vec![0; 256]);
    for number in 1..=6 {
        let made = window.take(message(append, 64));
        endpoint.write(made.address.unwrap(), 0, [number; BLOCK]).unwrap();
    }
    let blocks: Vec<_> = endpoint.0.iter().step_by(BLOCK).copied().collect();
    assert_eq!(blocks, [0, 0, 3, 4, 5, 6, 0, 0]);
    assert_eq!(window.0, [0, 32, 127]);
}

#[test]
fn fetch_and_increment_gives_each_number_once() {
    let fetch = message(ANSWER | first(operation(INCREMENT, target::I, 0)), 0);
    let mut window = Window(vec![u64::MAX - 1]);
    let answers: Vec<_> = (0..3).map(|_| window.ask(fetch)).collect();
    assert_eq!(answers, [[u64::MAX - 1, u64::MAX], [u64::MAX, 0], [0, 1]]);
}

#[test]
fn swap_answers_with_previous_value() {
    let swap = ANSWER | first(operation(MOVE, target::I, source::OPERAND));
    let mut window = Window(vec![5]);
    assert_eq!(window.ask(message(swap, 9)), [5, 9]);
    assert_eq!(window.ask(message(swap, 7)), [9, 7]);
}

#[test]
fn compare_and_swap_swaps_only_expected_value() {
    let bring = Message {
        indices: [1, 0, 0],
        ..message(NONE | first(operation(MOVE, target::I, source::OPERAND)), 30)
    };
    let replace = ANSWER | first(operation(REPLACE, target::I, source::J));
    let mut window = Window(vec![10, 0]);
    window.take(bring);
    assert_eq!(window.ask(message(replace, 11)), [10, 10], "10 is not 11");
    assert_eq!(window.ask(message(replace, 10)), [10, 30]);
    assert_eq!(window.ask(message(replace, 10)), [30, 30], "another message was first");
}

#[test]
fn last_arrival_at_barrier_signals_and_restarts() {
    // `i` counts the arrivals that are still to come, and `k` is the number of all.
    let arrive = NONE
        | first(operation(DECREMENT, target::I, 0))
        | second(operation(REPLACE, target::I, source::K))
        | compare(target::I, EQUAL, source::K);
    let mut window = Window(vec![4, 4]);
    let come = || Message { opcode: arrive, indices: [0, 0, 1], operand: 0 };
    let events: Vec<_> = (0..8).map(|_| window.take(come()).event).collect();
    assert_eq!(events, [false, false, false, true].repeat(2));
    assert_eq!(window.0, [4, 4]);
    // A barrier of one.
    let mut alone = Window(vec![1, 1]);
    assert!((0..3).all(|_| alone.take(come()).event));
}

#[test]
fn priority_queue_signals_a_new_highest_priority() {
    // The operand is the priority, `i` the queue of that priority, `j` the highest of all, `k` the
    // length of an entry.
    let append = WRITE
        | INDIRECT
        | COMPARED_FIRST
        | compare(target::J, LESS, source::OPERAND)
        | first(operation(ADD, target::I, source::K))
        | second(operation(MAXIMUM, target::J, source::OPERAND));
    let mut window = Window(vec![0, 0x1000, 0x2000, 0, 32]);
    let came: Vec<_> = [1, 2, 1, 2]
        .into_iter()
        .map(|priority| {
            let made =
                window.take(Message { opcode: append, indices: [priority, 3, 4], operand: priority.into() });
            (made.address.unwrap(), made.event)
        })
        .collect();
    assert_eq!(came, [(0x1000, true), (0x2000, true), (0x1020, false), (0x2020, false)]);
    assert_eq!(window.0, [0, 0x1040, 0x2040, 2, 32]);
}

#[test]
fn scattered_blocks_are_read_without_their_deselected_words() {
    let endpoint = Endpoint((0..=255).collect());
    let blocks: Vec<_> = [0x20, 0xc4]
        .into_iter()
        .map(|place| both(message(READ, place), &[]).unwrap().address.unwrap())
        .map(|address| endpoint.read(address, 0b1111_1101).unwrap())
        .collect();
    assert_eq!(
        blocks.concat().iter().filter(|byte| **byte != 0).collect::<Vec<_>>(),
        [&0x24, &0x25, &0x26, &0x27, &0xc8, &0xc9, &0xca, &0xcb]
    );
    assert_eq!(endpoint.read(0xe2, 0), None, "misaligned");
    assert_eq!(endpoint.read(0xe4, 0), None, "the last word is outside");
    assert!(endpoint.read(0xe4, 0b1000_0000).is_some(), "it is deselected");
}

#[test]
fn full_ring_refuses_before_any_change() {
    let append = WRITE
        | INDIRECT
        | COMPARED_FIRST
        | compare(target::I, EQUAL, source::J)
        | REFUSE
        | first(operation(ADD, target::I, source::K));
    let mut window = Window(vec![0, 64, 32]);
    assert!(!window.take(message(append, 0)).event);
    assert!(!window.take(message(append, 0)).event);
    assert_eq!(both(message(append, 0), &window.0), Err(Trap::Refused));
}

#[test]
fn index_trap_comes_before_a_refusal() {
    let refused = NONE | 7 << 24 | REFUSE;
    assert_eq!(both(message(refused, 0), &[]), Err(Trap::Refused), "it has no sides");
    let outside = refused | first(operation(INCREMENT, target::J, 0));
    assert_eq!(both(message(outside, 0), &[0]), Err(Trap::Index));
}
