//! Answers are accepted only for the question in flight.

use hamlyn_abi::dart::connection::*;
use hamlyn_abi::dart::control::*;
use zerocopy::IntoBytes;

use crate::support::*;

/// Sends a question whose answer goes to an offset.
fn ask(host: &mut Host, question: u32, answer: u64, length: u32) {
    let main = if question == DART_MAIN_READ { DART_MAIN_WRITE } else { DART_MAIN_WRITE_MULTIPLE };
    host.write_virtual(0, &[control(main, answer).as_bytes(), &length.to_le_bytes()].concat());
    host.send(1, control(question, 0), 0, 20);
}

/// Returns the packets that answer a question.
fn answers(question: u32, answer: u64, length: u32) -> Vec<Vec<u8>> {
    let (mut one, mut other, _) = pair(2 * PAGE, END);
    other.write_virtual(0, &pattern(PAGE));
    ask(&mut one, question, answer, length);
    one.sent();
    one.serve();
    one.sent().iter().for_each(|(_, packet)| other.arrive(0, packet));
    other.serve();
    other.sent().into_iter().map(|(_, packet)| packet).collect()
}

#[test]
fn answer_to_another_question_breaks_the_connection() {
    const READS: [u32; 2] = [DART_MAIN_READ, DART_MAIN_READ_MULTIPLE];
    for (question, answer, length) in
        [(READS[0], 1024, 0), (READS[1], 512, 90), (READS[1], 1024, 100), (READS[0], 512, 0)]
    {
        let (mut one, _, [state, _]) = pair(2 * PAGE, END);
        ask(&mut one, DART_MAIN_READ_MULTIPLE, 512, 100);
        one.sent();
        one.serve();
        assert_eq!(one.sent().len(), 1);
        for packet in answers(question, answer, length) {
            one.arrive(1, &packet);
        }
        one.serve();
        assert_eq!(one.word(state + u64::from(DART_STATE_BROKEN)), DART_BROKEN_PEER, "{question} {length}");
        assert_eq!(one.read_virtual(512, 1024), vec![0; 1024]);
    }
}

#[test]
fn answer_without_a_question_breaks_the_connection() {
    let (mut one, _, [state, _]) = pair(2 * PAGE, END);
    for packet in answers(DART_MAIN_READ, 512, 0) {
        one.arrive(1, &packet);
    }
    assert_eq!(one.word(state + u64::from(DART_STATE_BROKEN)), DART_BROKEN_PEER);
}
