//! Contents of the word of a fast message. Positions count from the channel's start, in units of 8
//! bytes.
//!
//! | to | bits 31-30 | bits 29-9 | bits 8-0 |
//! |---|---|---|---|
//! | receiver | 0: filled | end of the filled bytes | their number, in units |
//! | receiver | 1: ended | end of all messages | how |
//! | sender | 0: released | position, bits 29-0 | |
//! | sender | 1: arrived | number of messages, bits 29-0 | |
//! | sender | 2: left | | |

const KIND: u32 = 30;
const UNIT: u64 = 8;
/// Bits of a number that fills the word, and of a position beside a length.
const NUMBER: u32 = KIND;
const POSITION: u32 = 21;
const LOW: u32 = NUMBER - POSITION;

/// Length of the longest message whose word can state it, in bytes.
pub(super) const LONGEST: u64 = ((1 << LOW) - 1) * UNIT;

const FILLED: u32 = 0;
const ENDED: u32 = 1;
const RELEASED: u32 = 0;
const ARRIVED: u32 = 1;
const LEFT: u32 = 2;

/// A sender's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToReceiver {
    Filled { end: u64, length: u64 },
    Ended { at: u64, how: u64 },
}

/// A receiver's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToSender {
    Released(u64),
    Arrived(u32),
    Left,
}

impl ToReceiver {
    pub(super) fn encode(self) -> u32 {
        let (kind, position, low) = match self {
            Self::Filled { end, length } => (FILLED, end, length / UNIT),
            Self::Ended { at, how } => (ENDED, at, how),
        };
        kind << KIND | lowest(position / UNIT, POSITION) << LOW | lowest(low, LOW)
    }

    /// Decodes a word whose position is `from` or later. `None` if it is not a sender's.
    pub(super) fn decode(word: u32, from: u64) -> Option<Self> {
        let ahead = ((word >> LOW) % (1 << POSITION)).wrapping_sub((from / UNIT) as u32) % (1 << POSITION);
        let (position, low) = (from.wrapping_add(u64::from(ahead) * UNIT), u64::from(word % (1 << LOW)));
        match word >> KIND {
            FILLED => Some(Self::Filled { end: position, length: low * UNIT }),
            ENDED => Some(Self::Ended { at: position, how: low }),
            _ => None,
        }
    }
}

impl ToSender {
    pub(super) fn encode(self) -> u32 {
        match self {
            Self::Released(position) => RELEASED << KIND | lowest(position / UNIT, NUMBER),
            Self::Arrived(number) => ARRIVED << KIND | lowest(number.into(), NUMBER),
            Self::Left => LEFT << KIND,
        }
    }

    /// Decodes a word after reports of these numbers. An earlier report that comes late changes
    /// nothing. `None` if the word is not a receiver's.
    pub(super) fn decode(word: u32, released: u64, arrived: u32) -> Option<Self> {
        match word >> KIND {
            RELEASED => {
                let ahead = u64::from(ahead(word, (released / UNIT) as u32));
                Some(Self::Released(released.wrapping_add(ahead * UNIT)))
            }
            ARRIVED => Some(Self::Arrived(arrived.wrapping_add(ahead(word, arrived)))),
            LEFT => Some(Self::Left),
            _ => None,
        }
    }
}

fn lowest(value: u64, bits: u32) -> u32 {
    (value % (1 << bits)) as u32
}

/// Returns how far a number is ahead of the last one; 0 if it is behind.
fn ahead(word: u32, last: u32) -> u32 {
    let ahead = word.wrapping_sub(last) % (1 << NUMBER);
    if ahead < 1 << (NUMBER - 1) { ahead } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn words_survive_the_wire(from in 0..1_u64 << 40, ahead in 0..1_u64 << POSITION, low in 0..1_u64 << LOW) {
            let (from, position) = (from * UNIT, (from + ahead) * UNIT);
            for sent in [
                ToReceiver::Filled { end: position, length: low * UNIT },
                ToReceiver::Ended { at: position, how: low },
            ] {
                prop_assert_eq!(ToReceiver::decode(sent.encode(), from), Some(sent));
            }
            for sent in [ToSender::Released(position), ToSender::Left] {
                prop_assert_eq!(ToSender::decode(sent.encode(), from, 0), Some(sent));
            }
        }

        #[test]
        fn late_reports_change_nothing(last in any::<u32>(), late in 0..1_u32 << 20) {
            let (before, now) = (last.wrapping_sub(late), u64::from(last) * UNIT);
            let released = ToSender::Released(u64::from(before) * UNIT);
            prop_assert_eq!(ToSender::decode(released.encode(), now, 0), Some(ToSender::Released(now)));
            let arrived = ToSender::Arrived(before);
            prop_assert_eq!(ToSender::decode(arrived.encode(), 0, last), Some(ToSender::Arrived(last)));
            let next = ToSender::Arrived(last.wrapping_add(late));
            prop_assert_eq!(ToSender::decode(next.encode(), 0, last), Some(next));
        }
    }

    #[test]
    fn words_of_the_other_direction_are_refused() {
        assert_eq!(ToReceiver::decode(2 << KIND, 0), None);
        assert_eq!(ToSender::decode(3 << KIND, 0, 0), None);
    }
}
