//! Notification queue overrun: its effect (section 2.6), and the discipline that makes it
//! impossible (section 2.7).

use crate::support::{Host, SLOT, TestArea, Two, request};
use hamlyn_abi::hamlyn::command::*;
use hamlyn_abi::hamlyn::metadata::{HAMLYN_ONE_SHOT_OPEN, HamlynMetadataEntry};
use hamlyn_abi::hamlyn::notification::{HAMLYN_NOTIFICATION_FAST, HamlynNotification};
use hamlyn_abi::hamlyn::request::{HAMLYN_FAST_MODE, HamlynRequest};
use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card_hamlyn::HamlynOptions;
use proptest::prelude::*;
use zerocopy::FromZeros;

const FAST: u32 = HAMLYN_NOTIFICATION_FAST;

fn entry_of(host: &Host, area: &TestArea, index: u64) -> HamlynNotification {
    let bytes = host.peek(area, index * 32, 32);
    zerocopy::FromBytes::read_from_bytes(&bytes).unwrap()
}

/// The oldest entries are overwritten, and each entry holds the number of the pass that wrote it.
#[test]
fn late_reader_finds_entries_of_later_passes() {
    let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
    for word in 0..11 {
        two.sender.post(
            0,
            HamlynRequest { metadata_index: HAMLYN_FAST_MODE, delta: word, ..request(0, 0) },
            b"",
        );
    }
    two.carry();
    let area = two.receiver.queue_area(0);
    let found: Vec<(u64, u32)> = (0..4)
        .map(|index| entry_of(&two.receiver, &area, index))
        .map(|entry| (entry.metadata, entry.wrap))
        .collect();
    // Words 8 to 10 in the third pass, flag 1; word 7 in the second pass, flag 0.
    assert_eq!(
        found,
        [(8, 2 << 2 | FAST | 1), (9, 2 << 2 | FAST | 1), (10, 2 << 2 | FAST | 1), (7, 1 << 2 | FAST)]
    );
    assert_eq!(two.receiver.counter(Statistic::Notifications), 11);
}

const ENTRIES: u32 = 3;

#[derive(Debug, Clone)]
enum Step {
    /// A sender that knows all keys sends any number of times.
    Send { entry: u32, times: u32 },
    /// The receiver takes a message and opens its entry again.
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..ENTRIES, 1..9_u32).prop_map(|(entry, times)| Step::Send { entry, times }),
        1 => Just(Step::Take),
    ]
}

proptest! {
    // Each case makes two hosts.
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Section 2.7: a one-shot slot's queue cannot be overrun if it has more entries than there are
    /// metadata entries.
    #[test]
    fn one_shot_slots_bound_unread_messages(steps in prop::collection::vec(step(), 1..80)) {
        let mut two = Two::new(HamlynOptions::default(), HAMLYN_MODE_NORMAL);
        two.receiver.command(HAMLYN_COMMAND_CLOSE_SLOT, SLOT, 0_u64).unwrap();
        let queue = two.receiver.open_queue(ENTRIES + 1);
        let metadata = two.receiver.area(u64::from(ENTRIES) * 128, 0);
        let slot = HamlynOpenSlot {
            area: two.area.abi,
            metadata: metadata.abi,
            metadata_entries: ENTRIES,
            mode: HAMLYN_MODE_PARANOID_ONE_SHOT,
            queue,
            ..Default::default()
        };
        two.receiver.open_slot(SLOT, slot);
        two.metadata = metadata;
        let armed = HamlynMetadataEntry { key: 5, high: 64, one_shot: HAMLYN_ONE_SHOT_OPEN, ..FromZeros::new_zeroed() };
        (0..u64::from(ENTRIES)).for_each(|entry| two.set_entry(entry, armed));
        let (mut unread, mut expected) = ([false; ENTRIES as usize], Vec::new());
        for step in steps {
            match step {
                Step::Send { entry, times } => {
                    for _ in 0..times {
                        two.sender.post(0, HamlynRequest { metadata_index: entry, key: 5, ..request(0, 4) }, b"data");
                    }
                    two.carry();
                    if !std::mem::replace(&mut unread[entry as usize], true) {
                        expected.push(entry);
                    }
                }
                Step::Take => {
                    let taken = two.receiver.receive(queue).map(|entry| entry.metadata / 128);
                    prop_assert_eq!(taken, expected.first().map(|entry| u64::from(*entry)));
                    if let Some(entry) = taken {
                        expected.remove(0);
                        unread[entry as usize] = false;
                        two.set_entry(entry, armed);
                    }
                }
            }
        }
        for entry in expected {
            let taken = two.receiver.receive(queue).map(|taken| taken.metadata / 128);
            prop_assert_eq!(taken, Some(u64::from(entry)));
        }
        prop_assert_eq!(two.receiver.receive(queue), None);
    }
}
