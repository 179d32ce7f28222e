//! What a card's process writes into the ring: one record for each event, in its card's order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Sizes of the ring of one card. The longest entry is a packet with its bytes, behind the records
/// of the same call that were not written before it.
pub const GEOMETRY: hamlyn_fabric::Geometry =
    hamlyn_fabric::Geometry { capacity: 16 << 20, max_packet: 256 << 10 };

/// The fixed part of a record. Bytes may follow it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    /// When it happened: nanoseconds of the host's monotonic clock.
    pub time: u64,
    /// See [`Kind`].
    pub a: u64,
    /// See [`Kind`].
    pub b: u64,
    /// A [`Kind`].
    pub kind: u8,
    /// BAR of a register or window.
    pub bar: u8,
    /// Bytes of a register access.
    pub width: u8,
    /// 1 if it failed, or was put off.
    pub failed: u8,
    /// Number of bytes that follow, and then zeros up to a multiple of 8.
    pub length: u32,
}

impl Record {
    /// Returns the record's bytes as words.
    #[must_use]
    #[inline(always)]
    pub fn words(self) -> [u64; 4] {
        let [a, b, c, d] = self.length.to_ne_bytes();
        let rest = u64::from_ne_bytes([self.kind, self.bar, self.width, self.failed, a, b, c, d]);
        [self.time, self.a, self.b, rest]
    }
}

/// Splits what a card wrote at once into its records, each with its bytes.
pub fn split(mut batch: &[u8]) -> impl Iterator<Item = (Record, &[u8])> {
    std::iter::from_fn(move || {
        let (record, behind) = Record::read_from_prefix(batch).ok()?;
        let bytes = behind.get(..record.length as usize)?;
        batch = behind.get(bytes.len().next_multiple_of(8)..).unwrap_or_default();
        Some((record, bytes))
    })
}

/// Declares the kinds of records with their numbers.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal,)*) => {
        /// What happened. `a` and `b` are the record's numbers, `bytes` what follows it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Kind { $($(#[$doc])* $kind = $number,)* }

        impl Kind {
            /// Returns the kind with this number.
            #[must_use]
            pub fn of(number: u8) -> Option<Kind> {
                match number {
                    $($number => Some(Kind::$kind),)*
                    _ => None,
                }
            }
        }
    };
}

kinds! {
    /// The machine read a register: offset `a`, value `b`. `failed`: the card answers later, and
    /// `b` is its number for the read.
    RegisterRead = 1,
    /// The card answered a read late: number `a`, value `b`.
    LateRead = 2,
    /// The machine wrote a register: offset `a`, value `b`.
    RegisterWrite = 3,
    /// The card has handled the write, the store or the packet before.
    Done = 4,
    /// The machine stored to ordinary memory, and the card saw it: address `a`, then the bytes.
    Store = 5,
    /// The card read guest memory: address `a`, length `b`; then the bytes, as far as wanted.
    DmaRead = 6,
    /// The card wrote guest memory: address `a`, length `b`; then the bytes, as far as wanted.
    DmaWrite = 7,
    /// The card got guest memory in place, for reading: address `a`, length `b`.
    DmaLendRead = 8,
    /// The card got guest memory in place, for writing: address `a`, length `b`.
    DmaLendWrite = 9,
    /// The card stored a word that the guest polls: address `a`, value `b`.
    DmaPublish = 10,
    /// The card changed a word in one piece: address `a`, old value `b`.
    DmaFetch = 11,
    /// The card raised an MSI-X vector: `a`.
    Interrupt = 12,
    /// The card sent a packet to host or group `a`, `b` bytes; then its first bytes.
    Send = 13,
    /// A packet arrived from host `a`, `b` bytes; then its first bytes.
    Arrive = 14,
    /// The link is up: host `a` of `b` ports. `failed`: it is down.
    Link = 15,
    /// The machine reset the card; then the cause, as text.
    Reset = 16,
    /// The card loaded a word from a window that differs from what it loaded there last: offset
    /// `a`, value `b`.
    WindowLoad = 17,
    /// The card stored a word to a window: offset `a`, value `b`.
    WindowStore = 18,
    /// The card copied `b` bytes from offset `a` of a window; then the bytes, as far as wanted.
    WindowCopy = 19,
    /// The card zeroed `b` bytes from offset `a` of a window.
    WindowClear = 20,
    /// The card's counter number `a` grew by `b`.
    Counter = 21,
    /// The ring was full: `a` records are missing here.
    Lost = 22,
    /// An event of the machine's kernel. No card records it.
    Guest = 23,
    /// A fault by rule; then the rule, as text.
    Fault = 24,
}

/// What the reader wants, in the word that it shares with the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// A bit for each [`Kind`], by its number.
    pub kinds: u32,
    /// Whether each record has its own time. Otherwise all records of one call of the card have the
    /// time of the first, because reading the clock costs more than the rest.
    pub exact: bool,
    /// Maximum number of a packet's or an access's bytes in a record.
    pub bytes: u32,
    /// Whether the ring gets a recording instead (`hamlyn-replay`), from the next start of the
    /// driver on.
    pub recording: bool,
}

/// Bit of [`Wish::exact`] beside those of the kinds.
const EXACT: u32 = 1 << 31;
/// Bit of [`Wish::recording`]. No kind has the number 0.
const RECORDING: u32 = 1;

impl Wish {
    /// Bytes of a packet that are always recorded if packets are: its headers.
    pub const HEADS: u32 = 96;

    /// Everything, without data.
    pub const ALL: Wish = Wish { kinds: !EXACT & !RECORDING, exact: true, bytes: 0, recording: false };

    /// Nothing.
    pub const NONE: Wish = Wish { kinds: 0, exact: false, bytes: 0, recording: false };

    /// A recording.
    pub const RECORDING: Wish = Wish { recording: true, ..Wish::NONE };

    /// Wants only these kinds.
    #[must_use]
    pub fn of(kinds: &[Kind], bytes: u32) -> Wish {
        Wish { kinds: kinds.iter().fold(0, |bits, kind| bits | 1 << *kind as u32), bytes, ..Wish::NONE }
    }

    /// Whether records of this kind are wanted. Missing records are always reported.
    #[must_use]
    #[inline]
    pub fn has(self, kind: Kind) -> bool {
        self.has_number(kind as u8)
    }

    /// Whether records of the kind with this number, which is below 32, are wanted.
    #[must_use]
    #[inline]
    pub fn has_number(self, kind: u8) -> bool {
        (self.kinds | 1 << Kind::Lost as u32) >> (kind & 31) & 1 != 0
    }

    /// Returns the word.
    #[must_use]
    pub fn to_word(self) -> u64 {
        let exact = if self.exact { EXACT } else { 0 };
        let recording = if self.recording { RECORDING } else { 0 };
        u64::from(self.kinds | exact | recording) << 32 | u64::from(self.bytes)
    }

    /// Returns what a word means.
    #[must_use]
    #[inline]
    pub fn of_word(word: u64) -> Wish {
        let kinds = (word >> 32) as u32;
        let [exact, recording] = [EXACT, RECORDING].map(|bit| kinds & bit != 0);
        Wish { kinds: kinds & !(EXACT | RECORDING), exact, bytes: word as u32, recording }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_names_one_kind() {
        for number in 1..=24 {
            assert_eq!(Kind::of(number).map(|kind| kind as u8), Some(number));
        }
        assert_eq!((Kind::of(0), Kind::of(25)), (None, None));
    }

    #[test]
    fn batch_is_split_into_its_records() {
        let of = |length, bytes: &[u8]| {
            let record = Record { a: 1, length, ..Record::default() };
            [record.as_bytes(), bytes].concat()
        };
        let batch = [of(3, &[1, 2, 3, 0, 0, 0, 0, 0]), of(0, &[]), of(8, &[9; 8]), of(9, &[7; 8])].concat();
        let bytes: Vec<&[u8]> = split(&batch).map(|(_, bytes)| bytes).collect();
        assert_eq!(bytes, [&[1, 2, 3][..], &[], &[9; 8]], "the last one is cut off");
    }

    #[test]
    fn words_are_the_bytes() {
        let record =
            Record { time: 1, a: 2, b: 3, kind: 4, bar: 5, width: 6, failed: 7, length: 0x0a0b_0c0d };
        assert_eq!(record.words().as_bytes(), record.as_bytes());
    }

    #[test]
    fn wish_survives_as_a_word() {
        let wish = Wish { exact: true, ..Wish::of(&[Kind::Send, Kind::Arrive], 65_536) };
        assert_eq!(Wish::of_word(wish.to_word()), wish);
        assert!(wish.has(Kind::Send) && wish.has(Kind::Lost) && !wish.has(Kind::Interrupt));
        assert_eq!(Wish::of_word(Wish::RECORDING.to_word()), Wish::RECORDING);
    }
}
