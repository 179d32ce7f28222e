//! The fast paths of the library and the card, whose instructions are counted.

use crate::engine::paths::Paths;
use crate::hamlyn::one_process;
use crate::hamlyn::parts;

/// The functions that [`walk`] calls.
pub(crate) const PATHS: Paths = Paths {
    functions: &[
        ("path_write", "send: tagged remote write of 16 bytes"),
        ("path_get_tag", "receive: its tag"),
        ("path_send", "send: message of 64 bytes"),
        ("path_receive", "receive: its notification"),
        ("path_look", "look at an empty queue"),
        ("path_deliver_64", "card: deliver a 64-byte packet, with its notification"),
        ("path_deliver_4096", "card: deliver a 4 KiB packet, of 16 a message"),
        ("path_copy_4096", "copy 4 KiB, for comparison"),
    ],

    papers: &[
        (
            "Hamlyn (section 3.3), tagged remote write: send",
            "260 cycles, 8 of them STORE instructions to the card",
        ),
        ("Hamlyn (section 5), tagged remote write: receive", "120 cycles"),
        ("Active Messages on the CM-5, as Hamlyn's section 5 has it: send of 64 bytes", "397 instructions"),
        ("SHRIMP (Table 1), single buffering: send + receive", "4 + 5 instructions"),
        ("SHRIMP (Table 1), deliberate update: send", "15 instructions"),
        ("SHRIMP (Table 1), csend + crecv", "73 + 78 instructions"),
    ],
};

/// Sends `count` messages on each of the library's paths, and `count` packets on the card's.
pub(crate) fn walk(count: u64) -> anyhow::Result<()> {
    one_process::walk_paths(count)?;
    parts::walk_paths(count)
}
