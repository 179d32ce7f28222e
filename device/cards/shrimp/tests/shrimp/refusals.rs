//! Invalid commands of the operating system: refused with value and limit, without any change.

use hamlyn_abi::family::command::*;
use hamlyn_abi::shrimp::arrival::SHRIMP_MAX_ARRIVALS;
use hamlyn_abi::shrimp::command::*;
use hamlyn_abi::shrimp::entry::*;
use hamlyn_test_host::Refusal;

use crate::support::*;

fn refused(status: u32, value: u64, limit: u64) -> Result<(), Refusal> {
    Err(Refusal { status, value, limit })
}

#[test]
fn invalid_entry_is_refused_and_old_one_stays() {
    let mut host = Host::new(0);
    host.map_out(10, 1, 20, SHRIMP_MODE_SINGLE);
    let good = out(4096, [(30, 2, SHRIMP_MODE_SINGLE), (0, 0, 0)]);
    let with = |change: fn(&mut ShrimpEntry)| {
        let mut entry = good;
        change(&mut entry);
        entry
    };
    let bad = ULN_STATUS_BAD_VALUE;
    for (entry, value, limit) in [
        (with(|entry| entry.split_out = 4097), 4097, 4096),
        (with(|entry| entry.split_in = 5000), 5000, 4096),
        (with(|entry| entry.out[1].mode = 4), 4, 3),
        (with(|entry| entry.out[0].node = 65536), 65536, 65535),
        (
            with(|entry| entry.out[1].page = SHRIMP_SYSTEM_PAGE + 1),
            SHRIMP_SYSTEM_PAGE + 1,
            SHRIMP_SYSTEM_PAGE,
        ),
        (with(|entry| entry.incoming[0].flags = 2), 2, 1),
        (with(|entry| entry.incoming[1].reserved = 1), 1, 0),
        (with(|entry| entry.flags = 32), 32, 31),
    ] {
        assert_eq!(host.run(SHRIMP_COMMAND_SET_ENTRY, 10, &entry), refused(bad, value, limit));
    }
    let beyond = host.run(SHRIMP_COMMAND_SET_ENTRY, PAGES, &good);
    assert_eq!(beyond, refused(ULN_STATUS_BAD_INDEX, PAGES.into(), PAGES.into()));
    host.store_seen(10 * PAGE, b"a");
    assert_eq!(host.sent_data(), [(1, 20 * PAGE, b"a".to_vec())]);
}

#[test]
fn invalid_system_page_is_refused() {
    let mut host = Host::new(0);
    let mut set = |host_id, page, mapped, reserved| {
        host.run(SHRIMP_COMMAND_SET_SYSTEM_PAGE, host_id, &ShrimpSystemPage { page, mapped, reserved })
    };
    assert_eq!(set(65536, 1, 1, 0), refused(ULN_STATUS_BAD_INDEX, 65536, 65535));
    assert_eq!(set(1, PAGES.into(), 1, 0), refused(ULN_STATUS_BAD_ADDRESS, PAGES.into(), PAGES.into()));
    assert_eq!(set(1, 1, 2, 0), refused(ULN_STATUS_BAD_VALUE, 2, 1));
    assert_eq!(set(1, 1, 1, 7), refused(ULN_STATUS_BAD_VALUE, 7, 0));
}

#[test]
fn arrival_queue_opens_once_with_valid_size() {
    let mut host = Host::new(0);
    for records in [0, 8, 17, SHRIMP_MAX_ARRIVALS * 2] {
        let body = ShrimpOpenArrivals { records, ..Default::default() };
        let limit = SHRIMP_MAX_ARRIVALS.into();
        let result = host.run(SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &body);
        assert_eq!(result, refused(ULN_STATUS_BAD_LENGTH, records.into(), limit));
    }
    host.open_arrivals();
    let again = host.run(SHRIMP_COMMAND_OPEN_ARRIVALS, 0, &ShrimpOpenArrivals::default());
    assert_eq!(again, refused(ULN_STATUS_IN_USE, 0, 1));
    host.run(SHRIMP_COMMAND_CLOSE_ARRIVALS, 0, &0_u64).unwrap();
    host.open_arrivals();
}

#[test]
fn unknown_operation_is_refused() {
    let mut host = Host::new(0);
    let result = host.run(999, 0, &0_u64);
    assert_eq!(result.unwrap_err().status, ULN_STATUS_BAD_OPCODE);
}
