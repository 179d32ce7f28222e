//! A reader's position in a notification queue, and what it finds there (section 2.6).
//!
//! The card never waits for the reader. Positions count notifications since the queue was created,
//! so position *p* is entry *p* mod `entries` of pass *p* / `entries`. An entry's `wrap` word holds
//! the pass. This detects a reader that is whole passes behind, for which the wrap flag alone would
//! look correct.

use hamlyn_abi::hamlyn::notification::{
    HAMLYN_NOTIFICATION_PASS_SHIFT, HAMLYN_NOTIFICATION_WRAP, HamlynNotification,
};
use hamlyn_sys::hamlyn::window::QueueEntries;

/// Passes are counted modulo 2^30.
const PASSES: u32 = 1 << 30;

/// Returns the wrap flag of an entry that is not complete yet: 0 in the first pass, 1 in the next,
/// and so on.
fn wrap_begun(pass: u32) -> u32 {
    pass % 2
}

/// The meaning of an entry's `wrap` word for a reader that awaits a certain pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sight {
    /// The entry is not written yet, or not complete.
    NotYet,
    /// The entry is complete.
    There,
    /// The entry was overwritten, or is being overwritten, this many passes later.
    Overwritten { passes: u32 },
}

impl Sight {
    #[inline]
    pub(crate) fn of(word: u32, pass: u32) -> Self {
        // Count in half passes, because an entry whose write has begun is half-way. The difference
        // is the card's distance from where it begins with `pass`, modulo 2^31. Half of that or
        // more means behind.
        let whole = (word & HAMLYN_NOTIFICATION_WRAP) ^ wrap_begun(word >> HAMLYN_NOTIFICATION_PASS_SHIFT);
        let written = (word >> HAMLYN_NOTIFICATION_PASS_SHIFT) << 1 | whole;
        match ((written.wrapping_sub(pass << 1) << 1) as i32) >> 1 {
            1 => Sight::There,
            ahead @ 2.. => Sight::Overwritten { passes: ahead as u32 / 2 },
            _ => Sight::NotYet,
        }
    }
}

/// Read access to a queue's memory: [`QueueEntries`], or a model of it in tests.
pub(crate) trait Entries {
    /// Returns the number of entries.
    fn entries(&self) -> u32;
    /// Returns the `wrap` word of an entry.
    fn word(&self, cursor: u32) -> u32;
    /// Returns an entry, or `None` if its word has changed by the time the entry has been read.
    fn entry(&self, cursor: u32, word: u32) -> Option<HamlynNotification>;
}

impl Entries for QueueEntries {
    fn entries(&self) -> u32 {
        self.entries()
    }

    fn word(&self, cursor: u32) -> u32 {
        self.word(cursor)
    }

    fn entry(&self, cursor: u32, word: u32) -> Option<HamlynNotification> {
        self.entry(cursor, word)
    }
}

/// The result of one look at a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing new.
    Nothing,
    /// The next notification.
    Notification(HamlynNotification),
    /// This many notifications were overwritten unread. The cursor is at the oldest one that was
    /// still there.
    Lost(u64),
}

/// The position of the next notification to read, as entry and pass, so that the data path needs no
/// division.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    index: u32,
    /// Number of passes since the first; never wraps.
    pass: u64,
}

impl Cursor {
    /// Returns the entry's index, and its pass modulo 2^30.
    pub(crate) fn place(&self) -> (u32, u32) {
        (self.index, self.pass as u32 % PASSES)
    }

    /// Takes the next notification, or skips overwritten ones.
    #[inline(always)]
    pub(crate) fn look(&mut self, queue: &impl Entries) -> Look {
        let (index, pass) = self.place();
        let word = queue.word(index);
        match Sight::of(word, pass) {
            Sight::NotYet => return Look::Nothing,
            Sight::There => {
                if let Some(entry) = queue.entry(index, word) {
                    self.advance(queue.entries());
                    return Look::Notification(entry);
                }
            }
            Sight::Overwritten { .. } => {}
        }
        self.skip(queue)
    }

    /// Takes the next notification after overwritten ones, or skips these.
    ///
    /// The entry at the cursor gives a lower bound on the card's position when the entry was
    /// written, and so which entries are certainly lost. The oldest remaining entry is read next,
    /// because the card may have moved on. Chasing a card that is faster than its reader would
    /// never end. So a look gives up after one round and reports the loss found so far.
    #[cold]
    fn skip(&mut self, queue: &impl Entries) -> Look {
        let entries = queue.entries();
        let start = *self;
        for _ in 0..=entries {
            let (index, pass) = self.place();
            let word = queue.word(index);
            let passes = match Sight::of(word, pass) {
                Sight::Overwritten { passes } => passes,
                _ if *self != start => break,
                Sight::NotYet => return Look::Nothing,
                Sight::There => match queue.entry(index, word) {
                    Some(entry) => {
                        self.advance(entries);
                        return Look::Notification(entry);
                    }
                    None => 1,
                },
            };
            // The card has reached this entry again, `passes` later. What it wrote in the pass
            // before that is lost up to here.
            self.pass += u64::from(passes - 1);
            self.advance(entries);
        }
        Look::Lost(self.position(entries) - start.position(entries))
    }

    fn advance(&mut self, entries: u32) {
        self.index += 1;
        if self.index >= entries {
            (self.index, self.pass) = (0, self.pass + 1);
        }
    }

    fn position(&self, entries: u32) -> u64 {
        self.pass * u64::from(entries) + u64::from(self.index)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use hamlyn_abi::hamlyn::notification::HAMLYN_NOTIFICATION_FAST;
    use proptest::prelude::*;

    use super::*;

    /// A card that writes as the ABI requires. It does some steps of its work between any two looks
    /// of the reader.
    struct Model {
        words: RefCell<Vec<HamlynNotification>>,
        /// Number of notifications written, and completed steps (0 to 3) of the one in progress.
        written: Cell<u64>,
        step: Cell<u8>,
        first: u64,
        /// Number of steps before each look, repeated cyclically.
        pace: Vec<u16>,
        looks: Cell<usize>,
        /// Position at which the card stops.
        limit: u64,
    }

    impl Model {
        fn new(entries: u32, first: u64, count: u64, pace: Vec<u16>) -> Self {
            let mut words = vec![HamlynNotification::default(); entries as usize];
            if first > 0 {
                // As the previous pass left them.
                for position in first - u64::from(entries)..first {
                    words[(position % u64::from(entries)) as usize] = entry(position, entries);
                }
            }
            let (words, written, limit) = (RefCell::new(words), Cell::new(first), first + count);
            Self { words, written, step: Cell::new(0), first, pace, looks: Cell::new(0), limit }
        }

        fn run(&self, steps: u16) {
            for _ in 0..steps {
                let (position, step) = (self.written.get(), self.step.get());
                if position == self.limit {
                    return;
                }
                let mut words = self.words.borrow_mut();
                let count = words.len() as u32;
                let place = &mut words[(position % u64::from(count)) as usize];
                let new = entry(position, count);
                match step {
                    0 if position >= u64::from(count) => {
                        place.wrap = (new.wrap ^ HAMLYN_NOTIFICATION_WRAP) & !HAMLYN_NOTIFICATION_FAST
                    }
                    0 => {}
                    1 => place.metadata = new.metadata,
                    2 => (place.slot, place.notification_index) = (new.slot, new.notification_index),
                    _ => {
                        place.wrap = new.wrap;
                        self.written.set(position + 1);
                    }
                }
                self.step.set((step + 1) % 4);
            }
        }

        fn before_look(&self) {
            let look = self.looks.get();
            self.looks.set(look + 1);
            self.run(self.pace[look % self.pace.len()]);
        }
    }

    /// Returns the entry that the card writes for a position. Every field identifies the position.
    fn entry(position: u64, entries: u32) -> HamlynNotification {
        let pass = (position / u64::from(entries)) as u32;
        HamlynNotification {
            metadata: position,
            slot: position as u32,
            notification_index: !(position as u32),
            wrap: (pass << HAMLYN_NOTIFICATION_PASS_SHIFT)
                | (wrap_begun(pass) ^ HAMLYN_NOTIFICATION_WRAP)
                | if position % 3 == 0 { HAMLYN_NOTIFICATION_FAST } else { 0 },
            ..HamlynNotification::default()
        }
    }

    impl Entries for Model {
        fn entries(&self) -> u32 {
            self.words.borrow().len() as u32
        }

        fn word(&self, cursor: u32) -> u32 {
            self.before_look();
            self.words.borrow()[cursor as usize].wrap
        }

        fn entry(&self, cursor: u32, word: u32) -> Option<HamlynNotification> {
            self.before_look();
            let metadata = self.words.borrow()[cursor as usize].metadata;
            self.before_look();
            let rest = self.words.borrow()[cursor as usize];
            self.before_look();
            let same = self.words.borrow()[cursor as usize].wrap == word;
            same.then_some(HamlynNotification { metadata, wrap: word, ..rest })
        }
    }

    /// Reads until the card has stopped and nothing is left. Returns the numbers of notifications
    /// read and lost.
    fn drain(model: &Model) -> Result<(u64, u64), TestCaseError> {
        let mut cursor = Cursor { index: 0, pass: model.first / u64::from(model.entries()) };
        let (mut read, mut lost) = (0, 0);
        loop {
            match cursor.look(model) {
                Look::Nothing if model.written.get() == model.limit => return Ok((read, lost)),
                Look::Nothing => model.run(1),
                Look::Lost(count) => {
                    prop_assert!(count > 0);
                    lost += count;
                }
                Look::Notification(found) => {
                    prop_assert_eq!(
                        found,
                        entry(model.first + read + lost, model.entries()),
                        "whole and in its place"
                    );
                    read += 1;
                }
            }
            // No entry is counted as lost while it is still there.
            let overwritten = model.written.get() + 1 - u64::from(model.step.get() == 0);
            prop_assert!(
                lost == 0
                    || cursor.position(model.entries()) + u64::from(model.entries())
                        <= overwritten + read + 1
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// For any interleaving of the card's and the reader's steps, each notification is read
        /// complete, once and in order, or counted as lost.
        #[test]
        fn every_notification_is_read_or_counted(
            entries in 2..9_u32, count in 0..200_u64,
            // From the start, or so that the 30-bit pass counter wraps.
            late in any::<bool>(), pace in prop::collection::vec(prop_oneof![0..6_u16, 0..200_u16], 1..30),
        ) {
            let first = if late { u64::from(entries) * (u64::from(PASSES) - 3) } else { 0 };
            let model = Model::new(entries, first, count, pace);
            let (read, lost) = drain(&model)?;
            prop_assert_eq!(read + lost, count);
            prop_assert!(read >= count.min(entries.into()), "the last ones are still there");
        }

        /// For any number of whole passes behind: the flag at the cursor then looks like "not yet",
        /// or like "there".
        #[test]
        fn reader_many_passes_behind_finds_oldest(entries in 2..70_u32, passes in 0..50_u64, more in 0..70_u64) {
            let count = passes * u64::from(entries) + more;
            let model = Model::new(entries, 0, count, vec![0]);
            model.run(u16::MAX);
            let mut cursor = Cursor::default();
            let lost = count.saturating_sub(entries.into());
            if lost > 0 {
                prop_assert_eq!(cursor.look(&model), Look::Lost(lost));
            }
            for position in lost..count {
                prop_assert_eq!(cursor.look(&model), Look::Notification(entry(position, entries)));
            }
            prop_assert_eq!(cursor.look(&model), Look::Nothing);
        }
    }

    #[test]
    fn fast_reader_loses_nothing() {
        let model = Model::new(3, 0, 100, vec![1]);
        assert_eq!(drain(&model).unwrap(), (100, 0));
    }

    #[test]
    fn wrap_word_shows_card_position() {
        let word = |pass: u32, flag| (pass << HAMLYN_NOTIFICATION_PASS_SHIFT) | flag;
        assert_eq!(Sight::of(0, 0), Sight::NotYet, "an empty entry");
        assert_eq!(Sight::of(word(0, 1), 0), Sight::There);
        assert_eq!(Sight::of(word(0, 1), 1), Sight::NotYet);
        assert_eq!(Sight::of(word(1, 1), 1), Sight::NotYet, "begun");
        assert_eq!(Sight::of(word(1, 0), 1), Sight::There);
        assert_eq!(Sight::of(word(2, 0), 1), Sight::Overwritten { passes: 1 }, "begun");
        assert_eq!(Sight::of(word(5, 0), 1), Sight::Overwritten { passes: 4 });
        assert_eq!(Sight::of(word(1, 0), PASSES - 1), Sight::Overwritten { passes: 2 });
        assert_eq!(Sight::of(word(PASSES - 1, 0), 0), Sight::NotYet);
    }
}
