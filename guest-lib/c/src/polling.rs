//! How long waiting calls poll.

use std::time::Duration;

use hamlyn::Polling;

/// For polling_us: waiting calls sleep without polling first.
pub const ULN_NO_POLLING: u32 = 0xffff_ffff;

/// Returns the policy for a polling_us.
pub(crate) fn polling(microseconds: u32) -> Polling {
    match microseconds {
        0 => Polling::default(),
        ULN_NO_POLLING => Polling::NEVER,
        limit => Polling::up_to(Duration::from_micros(limit.into())),
    }
}
