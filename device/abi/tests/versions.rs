//! The binary interface that old programs use: numbers and layouts of every addition to version 2,
//! as literals. A current driver must accept exactly these. No line here may change; a new call is
//! a new line.

use std::mem::offset_of;

use hamlyn_abi::uapi::*;

/// The calls, with the addition that introduced them (`ULN_CAPABILITY_*`, 0 for the first of
/// version 2).
const CALLS: &[(u64, u32, u32)] = &[
    (0, 0xc080_4801, ULN_IOC_QUERY),
    (0, 0xc040_4802, HAMLYN_IOC_TERMINUS_CREATE),
    (0, 0xc010_4803, HAMLYN_IOC_TERMINUS_DESTROY),
    (0, 0xc020_4804, HAMLYN_IOC_SEND_BUFFER_SET),
    (0, 0xc020_4805, HAMLYN_IOC_SEND_BUFFER_CLEAR),
    (0, 0xc020_4806, HAMLYN_IOC_QUEUE_CREATE),
    (0, 0xc010_4807, HAMLYN_IOC_QUEUE_DESTROY),
    (0, 0xc020_4808, HAMLYN_IOC_QUEUE_WAIT),
    (0, 0xc020_4809, HAMLYN_IOC_QUEUE_ARM),
    (0, 0xc060_480a, HAMLYN_IOC_SLOT_CREATE),
    (0, 0xc010_480b, HAMLYN_IOC_SLOT_DESTROY),
    (0, 0xc208_480c, ULN_IOC_STATISTICS),
    (0, 0xc010_480d, ULN_IOC_SELF_TEST),
    (1, 0xc058_480e, ULN_IOC_LISTEN),
    (1, 0xc158_480f, ULN_IOC_CONNECT),
    (1, 0xc010_4810, ULN_IOC_NEXT_REQUEST),
    (1, 0xc118_4811, ULN_IOC_CONNECTION_QUERY),
    (1, 0xc108_4812, ULN_IOC_ACCEPT),
    (1, 0xc108_4813, ULN_IOC_REJECT),
    (1, 0xc108_4814, ULN_IOC_CLOSE),
    (2, 0xc040_4815, ULN_IOC_SHARE),
    (4, 0xc020_4816, HAMLYN_IOC_TERMINUS_WAIT),
    (4, 0xc020_4817, HAMLYN_IOC_TERMINUS_ARM),
    (8, 0xc158_4818, ULN_IOC_ASK),
    (16, 0xc040_4819, ULN_IOC_EXPRESS_CREATE),
    (16, 0xc040_481a, ULN_IOC_EXPRESS_MAP),
    (16, 0xc010_481b, ULN_IOC_EXPRESS_DESTROY),
    (16, 0xc040_481c, ULN_IOC_EXPRESS_QUERY),
    (32, 0xc010_481d, ULN_IOC_OBJECT_FILE),
    (64, 0xc020_481e, HAMLYN_IOC_REGISTRATION_CREATE),
    (64, 0xc010_481f, HAMLYN_IOC_REGISTRATION_DESTROY),
];

#[test]
fn call_numbers_are_unchanged() {
    for (addition, built, today) in CALLS {
        assert_eq!(built, today, "{built:#x} of addition {addition} is {today:#x}");
        assert!(built & 0xff < ULN_FIRST_CARD_CALL, "{built:#x} is a later model's");
    }
    let additions = [
        ULN_CAPABILITY_CONNECTIONS,
        ULN_CAPABILITY_SHARES,
        HAMLYN_CAPABILITY_COMPLETIONS,
        ULN_CAPABILITY_QUESTIONS,
        ULN_CAPABILITY_EXPRESS,
        ULN_CAPABILITY_OBJECT_FILES,
        HAMLYN_CAPABILITY_REGISTRATIONS,
    ];
    assert_eq!(additions, [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(ULN_UAPI_VERSION >> 16, 2, "another major version need not take these");
}

/// Compares a structure's size and field offsets with the old ones.
macro_rules! built {
    ($structure:ident $size:literal { $($field:ident $offset:literal,)* }) => {
        assert_eq!(size_of::<$structure>(), $size, stringify!($structure));
        $(assert_eq!(
            offset_of!($structure, $field), $offset,
            concat!(stringify!($structure), "::", stringify!($field))
        );)*
    };
}

#[test]
fn structure_layouts_are_unchanged() {
    built!(UlnQuery 128 {
        uapi_version 0, abi_version 4, model 8, host 12, capabilities 16, packet_size 24, sram_size 28,
        termini 32, slots 36, queues 40, vectors 44,
    });
    built!(UlnObject 16 { index 0, });
    built!(HamlynTerminusCreate 64 {
        terminus 0, weight 4, window_offset 8, doorbell_offset 16, status_offset 24,
    });
    built!(HamlynSendBuffer 32 { terminus 0, tag 4, address 8, length 16, });
    built!(HamlynQueueCreate 32 { entries 0, queue 4, offset 8, size 16, });
    built!(HamlynQueueWait 32 { queue 0, cursor 4, pass 8, ready 12, timeout_ns 16, });
    built!(HamlynSlotCreate 96 {
        area_address 0, area_length 8, metadata_address 16, metadata_entries 24, mode 28, queue 32,
        notification_index 36, flags 40, slot 44, key 48,
    });
    built!(UlnStatistics 520 { count 0, values 8, });
    built!(UlnSelfTest 16 { access 0, dma 4, interrupt 8, });
}

#[test]
fn layouts_of_additions_are_unchanged() {
    // Connections.
    built!(UlnListen 88 { name_length 0, backlog 4, name 24, });
    built!(UlnConnect 344 { host 0, name_length 4, private_length 8, name 24, data 88, });
    built!(UlnConnectionState 280 { state 0, reason 4, host 8, private_length 12, data 24, });
    built!(UlnPrivate 264 { length 0, data 8, });
    // Shares.
    built!(UlnShareQuery 64 { held 0, limit 16, user 32, });
    // Completions.
    built!(HamlynTerminusWait 32 { terminus 0, completed 4, ready 8, timeout_ns 16, });
    // Questions, and the switch's ports, in a word that was zero before.
    built!(UlnQuery 128 { ports 48, });
    // Registrations, in words that were zero before.
    built!(HamlynRegistrationCreate 32 { address 0, length 8, registration 16, });
    built!(HamlynSendBuffer 32 { registration 24, });
    built!(HamlynSlotCreate 96 { registration 56, });
    // Express memory.
    built!(UlnExpressCreate 64 { host 0, number 4, length 8, key 16, offset 24, });
    built!(UlnExpressMap 64 { host 0, area 4, key 8, number 16, length 24, offset 32, });
    built!(UlnExpressQuery 64 {
        host 0, part 8, pages 16, used 20, leaving 24, viewed 28, held 32, limit 36,
    });
}

#[test]
fn constant_values_are_unchanged() {
    let shares = [HAMLYN_SHARE_TERMINI, HAMLYN_SHARE_SLOTS, HAMLYN_SHARE_QUEUES, ULN_SHARE_CONNECTIONS];
    assert_eq!(shares, [0, 1, 2, 3]);
    let states = [
        ULN_CONNECTION_CONNECTING,
        ULN_CONNECTION_REQUESTED,
        ULN_CONNECTION_ESTABLISHED,
        ULN_CONNECTION_ENDED,
    ];
    assert_eq!(states, [1, 2, 3, 4]);
    let ends = [
        ULN_END_CLOSED,
        ULN_END_DIED,
        ULN_END_HOST_LOST,
        ULN_END_HOST_RESET,
        ULN_END_LINK_LOST,
        ULN_END_LAPSED,
        ULN_END_CARD_RESET,
        ULN_END_NO_NAME,
        ULN_END_BACKLOG,
        ULN_END_REJECTED,
        ULN_END_LISTENING,
        ULN_END_NOT_LISTENING,
    ];
    assert_eq!(ends, std::array::from_fn(|index| index as u32 + 1));
    assert_eq!((ULN_MAX_NAME, ULN_MAX_PRIVATE, ULN_WAIT_FOREVER), (64, 256, -1));
}
