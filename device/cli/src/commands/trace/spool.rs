//! What cards write, kept in a file until a trace ends.
//!
//! To name an event takes much longer than to keep its record, on a processor that the cards and
//! their machines need meanwhile.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::Path;

use anyhow::Context;

/// Card number of an entry that holds a time.
const TIME: u32 = u32::MAX;

/// A file without a name, which vanishes with this process. An entry is a card's number, a length
/// and as many bytes.
pub(super) struct Spool {
    file: BufWriter<File>,
    bytes: u64,
}

/// What the file has, in the order in which it was kept.
pub(super) struct Entries(BufReader<File>);

pub(super) enum Entry {
    /// What a card wrote at once.
    Records(usize, Vec<u8>),
    /// No record that follows is of an event before this time.
    Time(u64),
}

impl Spool {
    /// Creates the file beside another one, where there is room for that one's text.
    pub(super) fn beside(file: &Path) -> anyhow::Result<Self> {
        let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let kept = tempfile::tempfile_in(folder).or_else(|_| tempfile::tempfile());
        let kept = kept.context("no file for the trace's records")?;
        Ok(Self { file: BufWriter::with_capacity(1 << 20, kept), bytes: 0 })
    }

    /// Keeps what a card wrote at once.
    pub(super) fn keep(&mut self, card: usize, records: &[u8]) -> anyhow::Result<()> {
        self.put(card as u32, records)
    }

    /// Keeps the time before which no event follows.
    pub(super) fn keep_time(&mut self, time: u64) -> anyhow::Result<()> {
        self.put(TIME, &time.to_le_bytes())
    }

    fn put(&mut self, card: u32, bytes: &[u8]) -> anyhow::Result<()> {
        let head = [card.to_le_bytes(), (bytes.len() as u32).to_le_bytes()];
        let written = self.file.write_all(head.as_flattened()).and_then(|()| self.file.write_all(bytes));
        self.bytes += 8 + bytes.len() as u64;
        written.context("cannot keep the trace's records")
    }

    /// Returns the number of bytes kept.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the file from its start.
    pub(super) fn entries(self) -> anyhow::Result<Entries> {
        let mut file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        Ok(Entries(BufReader::with_capacity(1 << 20, file)))
    }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut entry = || -> io::Result<Entry> {
            let mut head = [[0; 4]; 2];
            self.0.read_exact(head.as_flattened_mut())?;
            let [card, length] = head.map(u32::from_le_bytes);
            let mut bytes = vec![0; length as usize];
            self.0.read_exact(&mut bytes)?;
            let time = (card == TIME).then(|| bytes.first_chunk().copied().map(u64::from_le_bytes));
            Ok(time.flatten().map_or(Entry::Records(card as usize, bytes), Entry::Time))
        };
        match entry() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
            entry => Some(entry),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_back_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::beside(&folder.path().join("trace")).unwrap();
        spool.keep(2, &[1, 2, 3]).unwrap();
        spool.keep_time(77).unwrap();
        spool.keep(0, &[9; 300_000]).unwrap();
        assert_eq!(spool.bytes(), 8 + 3 + 8 + 8 + 8 + 300_000);
        let entries: Vec<_> = spool.entries().unwrap().map(Result::unwrap).collect();
        let [Entry::Records(2, first), Entry::Time(77), Entry::Records(0, last)] = &entries[..] else {
            panic!("{} entries", entries.len())
        };
        assert_eq!((&first[..], last.len()), (&[1, 2, 3][..], 300_000));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the file has no name");
    }
}
