//! Checks of every bit, and checks that a mode does not have (sections 2.2 and 2.7).

use crate::support::{AREA, KEY, Two, request};
use hamlyn_abi::family::command::{ULN_REG_COMMAND_PAGE, ULN_STATUS_NOT_OPEN};
use hamlyn_abi::family::control::{ULN_CONTROL_ENABLE, ULN_CONTROL_RESET, ULN_REG_CONTROL};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_ONE_SHOT_LOCKED, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::request::HamlynRequest;
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card_hamlyn::HamlynOptions;

/// Returns a receiver whose entry 0 admits all of the area with the slot's own key.
fn two(mode: u32) -> Two {
    let two = Two::new(HamlynOptions::default(), mode);
    two.set_entry(0, HamlynMetadataEntry { key: KEY, high: AREA, ..zerocopy::FromZeros::new_zeroed() });
    two
}

#[test]
fn key_with_one_wrong_bit_is_refused() {
    for (mode, reason) in [
        (HAMLYN_MODE_NORMAL, Statistic::RefusedKey),
        (HAMLYN_MODE_PARANOID, Statistic::RefusedParanoidKey),
        (HAMLYN_MODE_PARANOID_ONE_SHOT, Statistic::RefusedParanoidKey),
    ] {
        let mut two = two(mode);
        for bit in 0..64 {
            two.sender.post(0, HamlynRequest { key: KEY ^ 1 << bit, ..request(0, 4) }, b"near");
            two.carry();
            assert_eq!(two.receiver.counter(reason), bit + 1, "mode {mode}, bit {bit}");
        }
        two.sender.post(0, request(0, 4), b"good");
        two.carry();
        assert!(two.receiver.receive(0).is_some(), "mode {mode}");
    }
}

#[test]
fn paranoid_slot_ignores_one_shot_lock() {
    let mut two = two(HAMLYN_MODE_PARANOID);
    two.set_entry(0, HamlynMetadataEntry { one_shot: HAMLYN_ONE_SHOT_LOCKED, ..two.entry(0) });
    two.sender.post(0, request(0, 4), b"data");
    two.carry();
    assert!(two.receiver.receive(0).is_some());
}

#[test]
fn misaligned_page_is_not_written() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    let directory = two.area.abi.directory;
    let list: u64 = two.receiver.read(directory);
    let page: u64 = two.receiver.read(list);
    // Neither a page's address in a list nor a list's address in the directory may be misaligned.
    for (entry, right) in [(list, page), (directory, list)] {
        two.receiver.write(entry, right + 8);
        let before = two.receiver.memory_image();
        two.sender.post(0, request(0, 4), b"data");
        two.carry();
        assert!(two.receiver.memory_image() == before);
        two.receiver.write(entry, right);
    }
    assert_eq!(two.receiver.counter(Statistic::RefusedReceiveDma), 2);
    two.sender.post(0, request(0, 4), b"data");
    two.carry();
    assert!(two.receiver.receive(0).is_some());
}

#[test]
fn reset_closes_everything() {
    let mut two = two(HAMLYN_MODE_NORMAL);
    let receiver = &mut two.receiver;
    receiver.open_terminus(0);
    receiver.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_RESET.into());
    receiver.write_register(ULN_REG_COMMAND_PAGE, 8, 4096);
    receiver.write_register(ULN_REG_CONTROL, 4, ULN_CONTROL_ENABLE.into());
    for opcode in [HAMLYN_COMMAND_CLOSE_TERMINUS, HAMLYN_COMMAND_CLOSE_QUEUE] {
        assert_eq!(receiver.command(opcode, 0, 0_u64).unwrap_err().status, ULN_STATUS_NOT_OPEN);
    }
    let before = receiver.memory_image();
    two.sender.post(0, request(0, 4), b"late");
    two.carry();
    assert_eq!(two.receiver.counter(Statistic::RefusedClosedSlot), 1);
    assert!(two.receiver.memory_image() == before);
}

/// Section 2.7: an owner changes an entry without the operating system and without waiting for the
/// card.
#[test]
fn changing_entry_never_mixes_old_and_new() {
    const OLD: u64 = 7;
    let key_of = |two: &Two| two.receiver.address(&two.metadata, 0x40);
    let entry = HamlynMetadataEntry { key: OLD, low: 0, high: 64, ..zerocopy::FromZeros::new_zeroed() };
    for mode in [HAMLYN_MODE_PARANOID, HAMLYN_MODE_PARANOID_ONE_SHOT] {
        let mut two = two(mode);
        // The values that a reader sees if it reads the key just before the change, and the limits
        // just after.
        two.set_entry(0, entry);
        let key = key_of(&two);
        two.receiver.memory.after_read.set(Some((key - 0x40, key, OLD + 1)));
        two.sender.post(0, HamlynRequest { key: OLD, ..request(0, 64) }, &[1; 64]);
        two.carry();
        assert_eq!(two.receiver.counter(Statistic::RefusedParanoidKey), 1);
        // The same with an entry that is closed before its high limit is moved.
        two.set_entry(0, entry);
        two.receiver.memory.after_read.set(Some((key - 0x40, key + 8, u64::MAX)));
        two.sender.post(0, HamlynRequest { key: OLD, ..request(0, 64) }, &[1; 64]);
        two.carry();
        assert_eq!(two.receiver.counter(Statistic::RefusedParanoidBounds), 1);
        assert_eq!(two.receiver.peek(&two.area, 0, 64), [0; 64]);
    }
}
