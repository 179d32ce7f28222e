//! Group receive (section 2.5): one notification for a message set from several senders.
//!
//! The process that starts a group owns the whole [`Share`] of a metadata entry: all of a ticket's
//! buffer, and the counter value 2^32. It divides the share among senders, which may divide theirs
//! further. Each sender sends its share as one message, or as several messages, piece by piece
//! (scatter-gather I/O is the special case of one sender).
//!
//! When the last packet of the last message has arrived, in whatever order, the counter values have
//! added up to 2^32. The receiver is notified once, and never needs to know the senders.
//!
//! ```no_run
//! # use hamlyn::{Share, Terminus, Ticket};
//! # fn example(ticket: Ticket, terminus: Terminus) -> hamlyn::Result<()> {
//! let mut parts = Share::whole(ticket)?.split(3)?;
//! println!("give these to two delegates: {} {}", parts[0], parts[1]);
//! let mut own = parts.remove(2);
//! let head = own.take(100)?;
//! terminus.send(&head.message(), &[1; 100])?;
//! terminus.send(&own.message().metadata(b"the rest"), b"...")?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::str::FromStr;

use super::request::Message;
use super::ticket::Ticket;
use super::ticket_errors::{MAX_PARTS, SHARE_SIZE, ShareError};
use crate::core::text::{read_hex, write_hex};
use crate::error::{Error, Result};

/// The sum of all counter values of a group.
const WHOLE: u64 = 1 << 32;
/// Prefix of the text form; the digit is the version.
const PREFIX: &str = "hamlynshare1:";
/// Magic number of the binary form: two letters and the version.
const MAGIC: [u8; 4] = *b"HS\x01\x00";

/// A part of a group's message set: a piece of the message area, and a counter value Y that must be
/// spent.
///
/// A share is consumed by sending it ([`Share::message`]) or by dividing it, and exactly once. A
/// share that is never sent leaves the set incomplete forever; one that is sent twice completes it
/// too early. So a share cannot be copied, except by passing on its text or bytes.
///
/// Y is at least 1, and at least the number of bytes. So however a share is divided into messages,
/// each message's Y is at least its number of packets. Every packet adds something, and only the
/// last sum is 2^32.
///
/// All messages of a group share a metadata entry. The entry ends up with the metadata of the
/// message that arrived last. A sender could also write to the others' pieces, because they have
/// the same key.
#[derive(Debug, PartialEq, Eq)]
pub struct Share {
    ticket: Ticket,
    counter: u64,
}

impl Share {
    /// Size of the binary form, in bytes.
    pub const SIZE: usize = SHARE_SIZE;
    /// Maximum number of parts that a share can be divided into at a time.
    pub const MAX_PARTS: usize = MAX_PARTS;

    /// Creates a share of all of a ticket's buffer and all of its metadata entry's counter.
    ///
    /// # Errors
    /// [`ShareError::Fast`] for a fast-mode ticket.
    pub fn whole(ticket: Ticket) -> Result<Self> {
        if ticket.is_fast() {
            return Err(ShareError::Fast.into());
        }
        Ok(Self { ticket, counter: WHOLE })
    }

    /// Returns the ticket for this share's piece of the message area.
    #[must_use]
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Returns the number of bytes of the message area in this share.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.ticket.length
    }

    /// Returns true if the share has no bytes. Its message is then only counted, as in a barrier.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counter value Y, 1 to 2^32.
    #[must_use]
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Returns a message that consumes the share: its last, or its only one. The data may be
    /// shorter than the share.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message::to(&self.ticket).delta(self.counter as u32)
    }

    /// Takes off the first `length` bytes, with as much counter value as they need, for a message
    /// that is not the last.
    ///
    /// # Errors
    /// [`ShareError::Counter`] if nothing would be left for the last message (its data may be
    /// empty, but not its counter value), [`Error::PastEnd`]. On error the share is unchanged.
    pub fn take(&mut self, length: u32) -> Result<Self> {
        let taken = Self { ticket: self.ticket.part(0, length)?, counter: needed(length) };
        let left = self.ticket.part(length, self.len() - length)?;
        let needed = taken.counter + needed(left.length);
        if needed > self.counter {
            return Err(ShareError::Counter { needed, available: self.counter }.into());
        }
        *self = Self { ticket: left, counter: self.counter - taken.counter };
        Ok(taken)
    }

    /// Divides the share into this number of parts, as equal as possible.
    ///
    /// # Errors
    /// [`Undivided`], which gives the share back, for 0 parts, for more than [`Share::MAX_PARTS`],
    /// or for more than the counter value allows.
    pub fn split(self, parts: usize) -> Result<Vec<Self>, Undivided> {
        let (length, count) = (self.len() as usize, parts.clamp(1, Self::MAX_PARTS));
        if count != parts {
            return Err(self.undivided(ShareError::Parts { parts }));
        }
        let sizes: Vec<_> =
            (0..count).map(|part| (length / count + usize::from(part < length % count)) as u32).collect();
        self.split_sizes(&sizes)
    }

    /// Divides the share into parts of these sizes in bytes, in this order. The sizes must add up
    /// to the share's size. The remaining counter value is divided equally, so that each part can
    /// be divided further.
    ///
    /// # Errors
    /// [`Undivided`], which gives the share back, as for [`Share::split`], or if the sizes do not
    /// add up to the share's size.
    pub fn split_sizes(self, sizes: &[u32]) -> Result<Vec<Self>, Undivided> {
        match self.parts(sizes) {
            Ok(parts) => Ok(parts),
            Err(reason) => Err(self.undivided(reason)),
        }
    }

    fn parts(&self, sizes: &[u32]) -> Result<Vec<Self>, ShareError> {
        let parts = sizes.len();
        if parts == 0 || parts > Self::MAX_PARTS {
            return Err(ShareError::Parts { parts });
        }
        let (given, available) = (sizes.iter().map(|size| u64::from(*size)).sum(), u64::from(self.len()));
        if given != available {
            return Err(ShareError::Bytes { given, available });
        }
        let needs = sizes.iter().map(|size| needed(*size)).sum();
        let Some(surplus) = self.counter.checked_sub(needs) else {
            return Err(ShareError::Counter { needed: needs, available: self.counter });
        };
        let (each, over) = (surplus / parts as u64, surplus % parts as u64);
        let mut base = self.ticket.base;
        let part = |(number, size): (u64, &u32)| {
            let ticket = Ticket { base, length: *size, ..self.ticket };
            base = base.wrapping_add(*size);
            Self { ticket, counter: needed(*size) + each + u64::from(number < over) }
        };
        Ok((0..).zip(sizes).map(part).collect())
    }

    fn undivided(self, reason: ShareError) -> Undivided {
        Undivided { share: self, reason }
    }

    /// Returns the binary form: `HS`, version, the ticket's binary form, Y modulo 2^32
    /// (little-endian), CRC-32 of everything before it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..44].copy_from_slice(&self.ticket.to_bytes());
        bytes[44..48].copy_from_slice(&(self.counter as u32).to_le_bytes());
        let sum = crc32fast::hash(&bytes[..48]);
        bytes[48..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// [`ShareError`] with the reason if it is not valid.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ShareError> {
        let length = bytes.len();
        let bytes: &[u8; Self::SIZE] = bytes.try_into().map_err(|_| ShareError::Size { length })?;
        if bytes[..4] != MAGIC {
            return Err(ShareError::Magic);
        }
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (stored, computed) = (word(48), crc32fast::hash(&bytes[..48]));
        if stored != computed {
            return Err(ShareError::Checksum { stored, computed });
        }
        let ticket = Ticket::from_bytes(&bytes[4..44])?;
        let counter = if word(44) == 0 { WHOLE } else { word(44).into() };
        if ticket.is_fast() {
            return Err(ShareError::Fast);
        }
        if counter < needed(ticket.length) {
            return Err(ShareError::Counter { needed: needed(ticket.length), available: counter });
        }
        Ok(Self { ticket, counter })
    }
}

/// Returns the minimum counter value for this number of bytes. A packet has at least one byte, and
/// a message at least one packet.
fn needed(length: u32) -> u64 {
    length.max(1).into()
}

/// The text form: `hamlynshare1:` and the binary form in hexadecimal.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, PREFIX, &self.to_bytes())
    }
}

impl FromStr for Share {
    type Err = ShareError;

    fn from_str(text: &str) -> Result<Self, ShareError> {
        Self::from_bytes(&read_hex::<{ Self::SIZE }>(PREFIX, text)?)
    }
}

/// A share that could not be divided, unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct Undivided {
    /// The share.
    pub share: Share,
    /// The reason.
    pub reason: ShareError,
}

impl From<Undivided> for Error {
    fn from(undivided: Undivided) -> Self {
        undivided.reason.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hamlyn::ticket::TicketFlags;

    fn whole(length: u32) -> Share {
        let ticket = Ticket {
            destination: 1,
            slot: 2,
            metadata_index: 3,
            key: 4,
            base: 100,
            length,
            flags: TicketFlags::INTERRUPT,
        };
        Share::whole(ticket).unwrap()
    }

    /// One step of a delegation, applied to one of the shares.
    #[derive(Debug, Clone)]
    enum Step {
        Split(usize),
        Sizes(Vec<u16>),
        Take(u16),
        HandOn,
    }

    fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
        let step = prop_oneof![
            (1..6_usize).prop_map(Step::Split),
            prop::collection::vec(any::<u16>(), 1..5).prop_map(Step::Sizes),
            any::<u16>().prop_map(Step::Take),
            Just(Step::HandOn),
        ];
        prop::collection::vec((any::<usize>(), step), 0..30)
    }

    /// Cuts `length` at these places, in any order.
    fn sizes(length: u32, cuts: &[u16]) -> Vec<u32> {
        let mut places: Vec<u32> =
            cuts.iter().map(|cut| ((u64::from(*cut) * u64::from(length)) >> 16) as u32).collect();
        places.sort_unstable();
        places.push(length);
        places.iter().scan(0, |from, to| Some(*to - std::mem::replace(from, *to))).collect()
    }

    /// Runs a tree of delegations. Returns all the shares that are sent in the end.
    fn delegate(length: u32, steps: Vec<(usize, Step)>) -> Vec<Share> {
        let mut shares = vec![whole(length)];
        for (which, step) in steps {
            let mut share = shares.swap_remove(which % shares.len());
            match step {
                Step::Split(parts) => match share.split(parts) {
                    Ok(parts) => shares.extend(parts),
                    Err(undivided) => shares.push(undivided.share),
                },
                Step::Sizes(cuts) => {
                    let sizes = sizes(share.len(), &cuts);
                    match share.split_sizes(&sizes) {
                        Ok(parts) => shares.extend(parts),
                        Err(undivided) => shares.push(undivided.share),
                    }
                }
                Step::Take(length) => {
                    shares.extend(share.take(length.into()).ok());
                    shares.push(share);
                }
                Step::HandOn => shares.push(share.to_string().parse().unwrap()),
            }
        }
        shares
    }

    /// Returns the deltas of a share's packets as the card creates them (section 2.5), if it is
    /// sent as one message.
    fn deltas(share: &Share, packet: u32) -> Vec<u32> {
        let packets = share.len().div_ceil(packet).max(1);
        let mut deltas = vec![1; packets as usize - 1];
        deltas.push((share.counter as u32).wrapping_sub(packets - 1));
        deltas
    }

    proptest! {
        /// For any delegations, packets and order of arrival: there is one notification, when
        /// everything has arrived. Every byte belongs to exactly one share.
        #[test]
        fn group_completes_exactly_once(
            length in prop_oneof![0..5_u32, 0..3000_u32], steps in steps(), packet in 1..300_u32, order in any::<u64>(),
        ) {
            let shares = delegate(length, steps);
            prop_assert_eq!(shares.iter().map(Share::counter).sum::<u64>(), WHOLE);
            let mut pieces: Vec<_> = shares.iter().map(|share| (share.ticket.base, share.len())).collect();
            pieces.sort_unstable();
            let end = pieces.iter().try_fold(100, |at, (base, length)| (*base == at).then_some(at + length));
            prop_assert_eq!(end, Some(100 + length), "pieces without gap or overlap");

            let mut deltas: Vec<_> = shares.iter().flat_map(|share| deltas(share, packet)).collect();
            // Fisher-Yates shuffle, with a linear congruential generator.
            let mut random = order;
            for last in (1..deltas.len()).rev() {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                deltas.swap(last, (random >> 33) as usize % (last + 1));
            }
            let mut accumulator = 0_u32;
            let (last, before) = deltas.split_last().unwrap();
            for delta in before {
                accumulator = accumulator.wrapping_add(*delta);
                prop_assert!(*delta != 0 && accumulator != 0, "not before all is there");
            }
            prop_assert_eq!(accumulator.wrapping_add(*last), 0);
        }

        #[test]
        fn a_changed_share_is_refused(length in any::<u32>(), at in 0..2 * Share::SIZE, digit in 0..16_u32) {
            let text = whole(length).to_string();
            prop_assert_eq!(text.parse::<Share>().unwrap(), whole(length));
            let mut changed: Vec<char> = text.chars().collect();
            let digit = char::from_digit(digit, 16).unwrap();
            prop_assume!(changed[PREFIX.len() + at] != digit);
            changed[PREFIX.len() + at] = digit;
            prop_assert!(changed.into_iter().collect::<String>().parse::<Share>().is_err());
        }

        #[test]
        fn any_text_is_read_or_refused(text in ".*") {
            let _ = text.parse::<Share>();
            let _ = format!("{PREFIX}{text}").parse::<Share>();
        }
    }

    #[test]
    fn failed_split_gives_share_back_unchanged() {
        let share = || Share { counter: 10, ..whole(10) };
        let refused = |result: Result<Vec<Share>, Undivided>| {
            let undivided = result.unwrap_err();
            assert_eq!(undivided.share, share());
            undivided.to_string()
        };
        assert_eq!(refused(share().split(0)), "a share cannot be divided into 0 parts (limit 1 to 65536)");
        assert_eq!(
            refused(share().split(usize::MAX)),
            format!("a share cannot be divided into {} parts (limit 1 to 65536)", usize::MAX)
        );
        assert_eq!(
            refused(share().split(11)),
            "counter value 10 is too small for what it must serve (limit 11)"
        );
        assert_eq!(
            refused(share().split_sizes(&[5, 4])),
            "parts of 9 bytes in all do not divide a share of 10 bytes"
        );
        assert_eq!(
            refused(share().split_sizes(&[u32::MAX; 3])),
            "parts of 12884901885 bytes in all do not divide a share of 10 bytes"
        );
        assert_eq!(
            refused(share().split_sizes(&[10, 0])),
            "counter value 10 is too small for what it must serve (limit 11)"
        );
        let mut all = share();
        assert!(all.take(11).is_err() && all.take(10).is_err(), "nothing would be left for the last message");
        assert_eq!(all, share());
        assert_eq!(all.take(9).unwrap().counter() + all.counter(), 10);
    }

    #[test]
    fn fast_ticket_and_too_small_counter_are_refused() {
        let fast = Ticket { metadata_index: Ticket::FAST, ..whole(1).ticket };
        assert_eq!(Share::whole(fast).unwrap_err().of(), Some(&ShareError::Fast));
        let text = Share { counter: 9, ..whole(10) }.to_string();
        assert_eq!(text.parse::<Share>(), Err(ShareError::Counter { needed: 10, available: 9 }));
        assert_eq!("hamlynshare1:00".parse::<Share>(), Err(ShareError::Digits { digits: 2 }));
        assert_eq!("hamlyn1:00".parse::<Share>(), Err(ShareError::Prefix));
    }

    #[test]
    fn message_of_whole_share_has_delta_zero() {
        assert_eq!((whole(1000).counter() as u32, deltas(&whole(10), 300)), (0, vec![0]));
    }
}
