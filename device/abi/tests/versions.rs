//! The binary interface that old programs use: numbers and layouts of every addition to version 2,
//! as literals. A current driver must accept exactly these. No line here may change; a new call is
//! a new line.

use std::mem::offset_of;

use hamlyn_abi::uapi::*;

/// The calls, with the addition that introduced them (`HAMLYN_CAPABILITY_*`, 0 for the first of
/// version 2).
const CALLS: &[(u64, u32, u32)] = &[
    (0, 0xc080_4801, HAMLYN_IOC_QUERY),
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
    (0, 0xc208_480c, HAMLYN_IOC_STATISTICS),
    (0, 0xc010_480d, HAMLYN_IOC_SELF_TEST),
    (1, 0xc058_480e, HAMLYN_IOC_LISTEN),
    (1, 0xc158_480f, HAMLYN_IOC_CONNECT),
    (1, 0xc010_4810, HAMLYN_IOC_NEXT_REQUEST),
    (1, 0xc118_4811, HAMLYN_IOC_CONNECTION_QUERY),
    (1, 0xc108_4812, HAMLYN_IOC_ACCEPT),
    (1, 0xc108_4813, HAMLYN_IOC_REJECT),
    (1, 0xc108_4814, HAMLYN_IOC_CLOSE),
    (2, 0xc040_4815, HAMLYN_IOC_SHARE),
    (4, 0xc020_4816, HAMLYN_IOC_TERMINUS_WAIT),
    (4, 0xc020_4817, HAMLYN_IOC_TERMINUS_ARM),
    (8, 0xc158_4818, HAMLYN_IOC_ASK),
    (16, 0xc040_4819, HAMLYN_IOC_EXPRESS_CREATE),
    (16, 0xc040_481a, HAMLYN_IOC_EXPRESS_MAP),
    (16, 0xc010_481b, HAMLYN_IOC_EXPRESS_DESTROY),
    (16, 0xc040_481c, HAMLYN_IOC_EXPRESS_QUERY),
];

#[test]
fn call_numbers_are_unchanged() {
    for (addition, built, today) in CALLS {
        assert_eq!(built, today, "{built:#x} of addition {addition} is {today:#x}");
        assert!(built & 0xff < HAMLYN_FIRST_CARD_CALL, "{built:#x} is a later model's");
    }
    let additions = [
        HAMLYN_CAPABILITY_CONNECTIONS,
        HAMLYN_CAPABILITY_SHARES,
        HAMLYN_CAPABILITY_COMPLETIONS,
        HAMLYN_CAPABILITY_QUESTIONS,
        HAMLYN_CAPABILITY_EXPRESS,
    ];
    assert_eq!(additions, [1, 2, 4, 8, 16]);
    assert_eq!(HAMLYN_UAPI_VERSION >> 16, 2, "another major version need not take these");
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
    built!(HamlynQuery 128 {
        uapi_version 0, abi_version 4, model 8, host 12, capabilities 16, packet_size 24, sram_size 28,
        termini 32, slots 36, queues 40, vectors 44,
    });
    built!(HamlynObject 16 { index 0, });
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
    built!(HamlynStatistics 520 { count 0, values 8, });
    built!(HamlynSelfTest 16 { access 0, dma 4, interrupt 8, });
}

#[test]
fn layouts_of_additions_are_unchanged() {
    // Connections.
    built!(HamlynListen 88 { name_length 0, backlog 4, name 24, });
    built!(HamlynConnect 344 { host 0, name_length 4, private_length 8, name 24, data 88, });
    built!(HamlynConnectionState 280 { state 0, reason 4, host 8, private_length 12, data 24, });
    built!(HamlynPrivate 264 { length 0, data 8, });
    // Shares.
    built!(HamlynShareQuery 64 { held 0, limit 16, user 32, });
    // Completions.
    built!(HamlynTerminusWait 32 { terminus 0, completed 4, ready 8, timeout_ns 16, });
    // Questions, and the switch's ports, in a word that was zero before.
    built!(HamlynQuery 128 { ports 48, });
    // Express memory.
    built!(HamlynExpressCreate 64 { host 0, number 4, length 8, key 16, offset 24, });
    built!(HamlynExpressMap 64 { host 0, area 4, key 8, number 16, length 24, offset 32, });
    built!(HamlynExpressQuery 64 {
        host 0, part 8, pages 16, used 20, leaving 24, viewed 28, held 32, limit 36,
    });
}

#[test]
fn constant_values_are_unchanged() {
    let shares = [HAMLYN_SHARE_TERMINI, HAMLYN_SHARE_SLOTS, HAMLYN_SHARE_QUEUES, HAMLYN_SHARE_CONNECTIONS];
    assert_eq!(shares, [0, 1, 2, 3]);
    let states = [
        HAMLYN_CONNECTION_CONNECTING,
        HAMLYN_CONNECTION_REQUESTED,
        HAMLYN_CONNECTION_ESTABLISHED,
        HAMLYN_CONNECTION_ENDED,
    ];
    assert_eq!(states, [1, 2, 3, 4]);
    let ends = [
        HAMLYN_END_CLOSED,
        HAMLYN_END_DIED,
        HAMLYN_END_HOST_LOST,
        HAMLYN_END_HOST_RESET,
        HAMLYN_END_LINK_LOST,
        HAMLYN_END_LAPSED,
        HAMLYN_END_CARD_RESET,
        HAMLYN_END_NO_NAME,
        HAMLYN_END_BACKLOG,
        HAMLYN_END_REJECTED,
        HAMLYN_END_LISTENING,
        HAMLYN_END_NOBODY,
    ];
    assert_eq!(ends, std::array::from_fn(|index| index as u32 + 1));
    assert_eq!((HAMLYN_MAX_NAME, HAMLYN_MAX_PRIVATE, HAMLYN_WAIT_FOREVER), (64, 256, -1));
}
