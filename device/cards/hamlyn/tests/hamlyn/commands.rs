//! Commands that only the operating system may use, and how they are refused (section 3.1).

use crate::support::{Host, Two, request};
use hamlyn_abi::family::area::{ULN_MAX_AREA, UlnArea};
use hamlyn_abi::family::command::*;
use hamlyn_abi::family::control::{ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::family::identity::{ULN_FEATURE_COHERENT, ULN_REG_FEATURES};
use hamlyn_abi::family::link::{ULN_REG_LINK_CHANGES, ULN_REG_PORTS};
use hamlyn_abi::family::sleep::{ULN_ARMED_FIRED, ULN_ARMED_YES, ULN_PENDING_STRIDE};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::request::{HAMLYN_REQUEST_INTERRUPT, HamlynRequest};
use hamlyn_abi::hamlyn::statistics::{HAMLYN_STATISTICS, Statistic};
use hamlyn_abi::hamlyn::window::{
    HAMLYN_QUEUE_CONTROL_ARMED, HAMLYN_QUEUE_CONTROL_PENDING, HAMLYN_WINDOW_SIZE,
};
use hamlyn_card::card::{Card, Place, Progress};
use hamlyn_card::ports::Window;
use hamlyn_card_hamlyn::HamlynOptions;
use hamlyn_test_host::Refusal;

fn host() -> Host {
    Host::new(0, HamlynOptions::default())
}

#[test]
fn refusals_name_value_and_limit() {
    let mut host = host();
    host.open_terminus(0);
    host.open_queue(4);
    let area = host.area(128, 0).abi;
    let slot = HamlynOpenSlot { area, queue: HAMLYN_NO_QUEUE, ..Default::default() };
    let open = |slot| (HAMLYN_COMMAND_OPEN_SLOT, 0, slot);
    let cases = [
        ((HAMLYN_COMMAND_OPEN_SLOT, 3962, slot), ULN_STATUS_BAD_INDEX, 3962, 3962),
        (open(HamlynOpenSlot { mode: 3, ..slot }), ULN_STATUS_BAD_VALUE, 3, 2),
        (open(HamlynOpenSlot { flags: 8, ..slot }), ULN_STATUS_BAD_VALUE, 8, 7),
        (open(HamlynOpenSlot { source: 5, ..slot }), ULN_STATUS_BAD_VALUE, 5, 0),
        (
            open(HamlynOpenSlot { flags: HAMLYN_SLOT_PRIVILEGED, source: 65536, ..slot }),
            ULN_STATUS_BAD_VALUE,
            65536,
            65535,
        ),
        (open(HamlynOpenSlot { queue: 1, ..slot }), ULN_STATUS_NOT_OPEN, 1, 256),
        (
            open(HamlynOpenSlot { area: UlnArea { length: ULN_MAX_AREA + 1, ..area }, ..slot }),
            ULN_STATUS_BAD_LENGTH,
            ULN_MAX_AREA + 1,
            ULN_MAX_AREA,
        ),
        (
            open(HamlynOpenSlot { area: UlnArea { directory: 8, ..area }, ..slot }),
            ULN_STATUS_BAD_ADDRESS,
            8,
            4096,
        ),
        (
            open(HamlynOpenSlot { metadata: area, metadata_entries: 2, ..slot }),
            ULN_STATUS_BAD_LENGTH,
            128,
            256,
        ),
        ((HAMLYN_COMMAND_CLOSE_SLOT, 0, slot), ULN_STATUS_NOT_OPEN, 0, 3962),
        ((99, 0, slot), ULN_STATUS_BAD_OPCODE, 99, 10),
        ((HAMLYN_COMMAND_OPEN_TERMINUS, 0, slot), ULN_STATUS_IN_USE, 0, 64),
    ];
    for ((opcode, index, body), status, value, limit) in cases {
        assert_eq!(host.command(opcode, index, body), Err(Refusal { status, value, limit }), "{body:?}");
    }
    assert_eq!(host.counter(Statistic::CommandsRefused), cases.len() as u64);
    host.open_slot(0, slot);
}

#[test]
fn missing_command_page_is_refused() {
    let mut host = host();
    host.write_register(ULN_REG_COMMAND_PAGE, 8, 1 << 40);
    host.write_register(ULN_REG_COMMAND_GO, 4, 1);
    assert_eq!(host.read_register(ULN_REG_COMMAND_STATUS, 4), u64::from(ULN_STATUS_NO_PAGE));
}

#[test]
fn queue_with_slots_cannot_be_closed() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    let receiver = &mut two.receiver;
    let in_use = Refusal { status: ULN_STATUS_IN_USE, value: 1, limit: 0 };
    assert_eq!(receiver.command(HAMLYN_COMMAND_CLOSE_QUEUE, 0, 0_u64), Err(in_use));
    receiver.command(HAMLYN_COMMAND_CLOSE_SLOT, crate::support::SLOT, 0_u64).unwrap();
    receiver.command(HAMLYN_COMMAND_CLOSE_QUEUE, 0, 0_u64).unwrap();
    let before = two.receiver.memory_image();
    two.sender.post(0, request(0, 4), b"late");
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::RefusedClosedSlot), 1);
    assert!(two.receiver.memory_image() == before);
}

#[test]
fn closed_terminus_sends_nothing_and_clears_its_window() {
    let mut host = host();
    host.open_terminus(0);
    host.wire.room = Some(0);
    for _ in 0..3 {
        host.post(0, request(0, 4), b"lost");
    }
    host.transmit_all();
    host.command(HAMLYN_COMMAND_CLOSE_TERMINUS, 0, 0_u64).unwrap();
    host.wire.room = None;
    assert_eq!(host.transmit_all(), Progress::Idle);
    assert_eq!(host.counter(Statistic::Abandoned), 3);
    assert!(host.wire.sent.is_empty());
    host.open_terminus(0);
    let mut window = vec![1; HAMLYN_WINDOW_SIZE as usize];
    host.window.copy_out(0, &mut window);
    assert!(window.iter().all(|byte| *byte == 0));
}

#[test]
fn only_a_sleeper_is_interrupted_and_only_once() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    let base = 64 * u64::from(HAMLYN_WINDOW_SIZE);
    let armed = base + u64::from(HAMLYN_QUEUE_CONTROL_ARMED);
    let pending = base + u64::from(HAMLYN_QUEUE_CONTROL_PENDING) + u64::from(ULN_PENDING_STRIDE);
    let send = |two: &mut Two, flags| {
        two.sender.post(0, HamlynRequest { flags, ..request(0, 0) }, b"");
        two.carry();
        two.receiver.interrupts.0.borrow().len()
    };
    assert_eq!(send(&mut two, HAMLYN_REQUEST_INTERRUPT), 0, "awake");
    two.receiver.window.store(armed, ULN_ARMED_YES);
    assert_eq!(send(&mut two, 0), 0, "not requested");
    assert_eq!(send(&mut two, HAMLYN_REQUEST_INTERRUPT), 1, "asleep");
    assert_eq!(two.receiver.window.load(armed), ULN_ARMED_FIRED);
    assert_eq!(two.receiver.window.load(pending), 1);
    assert_eq!(send(&mut two, HAMLYN_REQUEST_INTERRUPT), 1, "fired already");
    two.receiver.window.store(armed, ULN_ARMED_YES);
    assert_eq!(send(&mut two, HAMLYN_REQUEST_INTERRUPT), 1, "one is pending");
    assert_eq!(two.receiver.counter(Statistic::InterruptsCoalesced), 1);
}

#[test]
fn self_tests_answer() {
    let mut host = host();
    host.write_register(hamlyn_abi::family::identity::ULN_REG_SCRATCH, 4, 0x1234_5678);
    assert_eq!(host.read_register(hamlyn_abi::family::identity::ULN_REG_SCRATCH, 4), 0xedcb_a987);
    host.write_register(hamlyn_abi::family::interrupts::ULN_REG_INTERRUPT_TEST, 4, 7);
    host.write_register(hamlyn_abi::family::interrupts::ULN_REG_INTERRUPT_TEST, 4, 8);
    assert_eq!(*host.interrupts.0.borrow(), [7]);
    host.write(3 << 20, 0x1122_3344_u64);
    let test = UlnTestDma { from: 3 << 20, to: 4 << 20, length: 8 };
    host.command(ULN_COMMAND_TEST_DMA, 0, test).unwrap();
    assert_eq!(host.read::<u64>(4 << 20), 0x1122_3344);
}

#[test]
fn counters_are_read_by_command() {
    let mut host = host();
    assert!(host.command(99, 0, 0_u64).is_err());
    host.command(ULN_COMMAND_READ_STATISTICS, 0, 0_u64).unwrap();
    let values: [u64; HAMLYN_STATISTICS as usize] = host.read(4096 + u64::from(ULN_COMMAND_BODY));
    assert_eq!(values[Statistic::CommandsRefused as usize], 1);
}

#[test]
fn the_command_page_register_takes_halves() {
    let mut host = host();
    host.write_register(ULN_REG_COMMAND_PAGE, 4, 0x9abc_d123);
    host.write_register(ULN_REG_COMMAND_PAGE + 4, 4, 0x12);
    assert_eq!(host.read_register(ULN_REG_COMMAND_PAGE, 8), 0x12_9abc_d000);
    assert_eq!(host.read_register(ULN_REG_COMMAND_PAGE + 4, 4), 0x12);
}

#[test]
fn reset_restores_power_on_state() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    two.receiver.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    assert_eq!(two.receiver.read_register(ULN_REG_CONTROL, 4), 0);
    assert_eq!(two.receiver.read_register(hamlyn_abi::family::link::ULN_REG_HOST_ID, 4), 1);
    two.sender.post(0, request(0, 4), b"late");
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::Discarded), 1);
    assert!(two.receiver.card.counters().iter().all(|(name, value)| *value == 0 || *name == "discarded"));
}

#[test]
fn link_changes_are_counted() {
    let mut host = host();
    let changes = |host: &mut Host| host.read_register(ULN_REG_LINK_CHANGES, 4);
    let set = |host: &mut Host, id: Option<u16>| {
        let place = id.map(|host| Place { host, ports: 9 });
        host.with_card(|card, ports, _| card.link_changed(ports, place));
    };
    assert_eq!(changes(&mut host), 1, "it has come up");
    set(&mut host, None);
    assert_eq!(host.read_register(ULN_REG_PORTS, 4), 0, "the link is down");
    set(&mut host, None);
    assert_eq!(changes(&mut host), 2, "what is down cannot go down");
    set(&mut host, Some(3));
    assert_eq!(changes(&mut host), 3);
    set(&mut host, Some(3));
    assert_eq!(changes(&mut host), 4, "it was up and is up, so it is another");
    host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    assert_eq!(changes(&mut host), 4, "a reset does not hide a change");
    assert_eq!(host.read_register(ULN_REG_PORTS, 4), 9);
}

#[test]
fn coherent_feature_survives_reset() {
    for (coherent_windows, expected) in [(true, u64::from(ULN_FEATURE_COHERENT)), (false, 0)] {
        let mut host = Host::new(0, HamlynOptions { coherent_windows, ..HamlynOptions::default() });
        assert_eq!(host.read_register(ULN_REG_FEATURES, 4), expected);
        host.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
        assert_eq!(host.read_register(ULN_REG_FEATURES, 4), expected);
    }
}
