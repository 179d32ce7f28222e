//! Failures that a kernel can cause: out of memory, files of a dead card, several systems at the
//! same time.

use hamlyn_abi::kernel::wire::ULN_WIRE_REQUEST;

use super::*;

/// A conversation in which each step may fail. It must leave nothing behind.
fn converse(two: &mut Two) {
    let listener = two.sides[1].listen(b"name", 2);
    let asked = two.sides[0].request(1, b"name", b"hello");
    let question = two.sides[0].ask(1, b"name");
    let unknown = two.sides[0].request(1, b"absent", b"");
    two.carry();
    if let Ok(listener) = listener {
        if let Some(taken) = two.sides[1].claim(listener).unwrap() {
            two.sides[1].answer(taken, true, b"welcome").unwrap();
            two.carry();
            two.sides[1].close(taken, b"bye").unwrap();
            two.sides[1].release(taken);
        }
        two.sides[1].unlisten(listener);
    }
    [asked, question, unknown].into_iter().flatten().for_each(|number| two.sides[0].release(number));
    two.pass(1000, true);
}

#[test]
fn out_of_memory_refuses_and_leaves_nothing() {
    let mut failed = 0;
    for host in [0, 1] {
        for things in 0..20 {
            let mut two = Two::new();
            two.sides[host].card.memory = Some(things);
            converse(&mut two);
            failed += u32::from(two.sides[host].card.memory == Some(0));
            two.check_baseline();
        }
    }
    assert!((10..40).contains(&failed), "{failed} of 40 ran out of memory");
    let mut side = Side::new(1, 0);
    side.card.memory = Some(0);
    assert_eq!(side.listen(b"name", 1), Err(Errno::NOMEM));
    assert_eq!(side.request(1, b"name", b""), Err(Errno::NOMEM));
}

#[test]
fn files_of_reset_card_are_dead_and_closable() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    let listener = two.sides[1].listen(b"name", 1).unwrap();
    let waits = two.sides[0].request(1, b"name", b"").unwrap();
    two.carry();
    two.sides[1].system.take_woken();
    two.sides[1].stop();
    assert_eq!(two.sides[1].system.take_woken(), [taken, listener]);
    assert_eq!(two.sides[1].system.waiting(listener), None);
    assert_eq!(two.sides[1].claim(listener), Err(Errno::NODEV));
    assert_eq!(two.sides[1].listen(b"other", 1), Err(Errno::OPNOTSUPP));
    assert_eq!(two.sides[1].request(0, b"name", b""), Err(Errno::OPNOTSUPP));
    assert_eq!(two.reason(1, taken), ULN_END_CARD_RESET);
    two.sides[1].open();
    let again = two.sides[1].listen(b"name", 1).unwrap();
    two.pass(TIMEOUT / 4, true);
    for number in [asked, waits] {
        assert_eq!(two.reason(0, number), ULN_END_HOST_RESET);
        two.sides[0].release(number);
    }
    two.sides[1].unlisten(listener);
    two.sides[1].release(taken);
    assert_eq!(two.sides[1].system.waiting(again), Some(0), "a dead listener takes no name with it");
    two.sides[1].unlisten(again);
    two.check_baseline();
}

#[test]
fn invalid_arguments_are_refused() {
    let mut side = Side::new(1, 0);
    assert_eq!(side.listen(b"", 1), Err(Errno::INVAL));
    assert_eq!(side.listen(&[1; 65], 1), Err(Errno::INVAL));
    assert_eq!(side.listen(b"name", 0), Err(Errno::INVAL));
    assert_eq!(side.listen(b"name", ULN_MAX_BACKLOG + 1), Err(Errno::INVAL));
    assert_eq!(side.request(64, b"name", b""), Err(Errno::HOSTUNREACH));
    assert_eq!(side.request(1, b"name", &[0; 257]), Err(Errno::INVAL));
    assert_eq!(side.answer(99, true, b""), Err(Errno::NOTCONN));
    assert_eq!(side.claim(99), Err(Errno::NODEV));
    side.link_is(Some(64), 1);
    assert_eq!(side.request(1, b"name", b""), Err(Errno::HOSTUNREACH));
    side.link_is(None, 2);
    assert_eq!(side.request(1, b"name", b""), Err(Errno::NETDOWN));
    assert_eq!((side.system.sizes(), side.system.complaint()), (Sizes::default(), None));
}

#[test]
fn connections_of_a_card_are_limited() {
    let mut side = Side::new(1, 0);
    let last = (0..ULN_MAX_CONNECTIONS).map(|_| side.ask(1, b"name").unwrap()).last().unwrap();
    assert_eq!(side.ask(1, b"name"), Err(Errno::NOSPC));
    assert_eq!(side.listen(b"name", 1), Err(Errno::NOSPC));
    // It was never sent, so no peer has to be notified.
    side.release(last);
    side.listen(b"name", 1).unwrap();
}

#[test]
fn each_system_has_its_own_timeout() {
    let mut hasty = Side { system: System::new(5, 1000), card: Card::default() };
    let mut patient = Side::new(7, 0);
    hasty.open();
    hasty.link_is(Some(0), 1);
    let numbers = [&mut hasty, &mut patient].map(|side| side.request(9, b"name", b"").unwrap());
    for now in (0..=1500).step_by(50) {
        hasty.time_is(now);
        patient.time_is(now);
    }
    assert_eq!(hasty.state(numbers[0]).1, ULN_END_HOST_LOST);
    assert_eq!(patient.state(numbers[1]).1, 0);
}

#[test]
fn result_is_the_same_in_each_thread() {
    let said = || {
        let mut two = Two::new();
        two.connect();
        two.pass(3000, true);
        converse(&mut two);
        two.sides.map(|side| format!("{:?} {:?}", side.system.renewed(0), side.card))
    };
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(said)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), said());
    }
}

#[test]
fn many_messages_take_several_turns() {
    let mut side = Side::new(1, 0);
    let wire = UlnWire { incarnation: 1 << 32, ..UlnWire::default() };
    // From unknown hosts: each gets an acknowledgement.
    for host in 0..64 {
        for entry in PLACES..2 * PLACES {
            side.card.places.insert((host, entry), (wire, Vec::new()));
            side.card.arrived.push_back((host, entry));
        }
    }
    side.card.places.insert((1, 0), (wire, Vec::new()));
    side.card.arrived.push_back((1, 0));
    side.system.arrived(&mut side.card);
    assert!(side.system.work(&mut side.card));
    assert_eq!((side.card.arrived.len(), side.card.sent.len()), (1, 64), "others want the lock, too");
    assert_eq!(side.system.due(), Some(0));
    assert!(side.system.work(&mut side.card));
    assert_eq!((side.card.arrived.len(), side.card.sent.len()), (0, 65));
    assert!(!side.system.work(&mut side.card));
}

#[test]
fn lapsed_host_ends_its_connections_first() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    two.sides[1].system.lapsed(&mut two.sides[1].card);
    two.sides[1].work();
    assert_eq!(two.reason(1, taken), ULN_END_LAPSED);
    two.pass(TIMEOUT / 4, true);
    assert_eq!(two.reason(0, asked), ULN_END_HOST_RESET);
}

#[test]
fn paused_host_does_not_give_up_peers() {
    let mut two = Two::new();
    let [asked, taken] = two.connect();
    let late = 3 * TIMEOUT;
    two.now = late;
    two.sides[0].time_is(late);
    two.carry();
    assert_eq!(two.reason(0, asked), 0);
    two.sides[1].time_is(late);
    two.pass(1000, true);
    assert_eq!([two.reason(0, asked), two.reason(1, taken)], [0; 2]);
}

#[test]
fn waiting_refusals_are_bounded() {
    let mut side = Side::new(1, 0);
    let mut wire = UlnWire { incarnation: 1 << 32 | 1, ..UlnWire::default() };
    side.arrived(1, PLACES, wire, Vec::new());
    wire.to_incarnation = side.card.sent.last().unwrap().wire.incarnation;
    for number in 0..300 {
        (wire.sequence, wire.from, wire.request, wire.kind) = (number, 1, number + 1, ULN_WIRE_REQUEST);
        wire.name_length = 4;
        side.arrived(1, number % PLACES, wire, b"name".to_vec());
    }
    assert_eq!(side.system.sizes().messages, 256);
    // The host is given up, and its waiting messages with it.
    for now in (0..=3 * TIMEOUT).step_by(50) {
        side.time_is(now);
    }
    assert_eq!((side.system.sizes(), side.system.complaint()), (Sizes::default(), None));
}
