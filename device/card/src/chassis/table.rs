//! Tables in a card's SRAM, with a set of the open entries, so that a reset touches only those.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};

use hamlyn_abi::family::command::{ULN_STATUS_BAD_INDEX, ULN_STATUS_IN_USE, ULN_STATUS_NOT_OPEN};

use super::refusal::Refusal;

/// A table of objects that a driver opens and closes.
#[derive(Debug)]
pub struct Table<T> {
    entries: Vec<Option<T>>,
    open: BTreeSet<u32>,
}

impl<T> Table<T> {
    /// Creates a table of `size` closed entries.
    pub fn new(size: u32) -> Self {
        Self { entries: std::iter::repeat_with(|| None).take(size as usize).collect(), open: BTreeSet::new() }
    }

    /// Opens an entry, if `index` is in range.
    pub fn open(&mut self, index: u32, entry: T) {
        if let Some(place) = self.entries.get_mut(index as usize) {
            *place = Some(entry);
            self.open.insert(index);
        }
    }

    /// Closes an entry, if it is open.
    pub fn close(&mut self, index: u32) -> Option<T> {
        self.open.remove(&index);
        self.entries.get_mut(index as usize)?.take()
    }

    /// Closes all open entries.
    pub fn close_all(&mut self) {
        for index in std::mem::take(&mut self.open) {
            self.entries[index as usize] = None;
        }
    }

    /// Returns an entry, if it is open.
    #[inline]
    #[must_use]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.as_ref()
    }

    /// Returns an entry to change, if it is open.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.as_mut()
    }

    /// Checks that an entry exists and is not open.
    pub fn check_vacant(&self, index: u32) -> Result<(), Refusal> {
        match self.entries.get(index as usize) {
            None => Err(self.refusal(ULN_STATUS_BAD_INDEX, index)),
            Some(Some(_)) => Err(self.refusal(ULN_STATUS_IN_USE, index)),
            Some(None) => Ok(()),
        }
    }

    /// Returns an open entry that a command names.
    pub fn opened(&mut self, index: u32) -> Result<&mut T, Refusal> {
        let (bad, closed) =
            (self.refusal(ULN_STATUS_BAD_INDEX, index), self.refusal(ULN_STATUS_NOT_OPEN, index));
        self.entries.get_mut(index as usize).ok_or(bad)?.as_mut().ok_or(closed)
    }

    /// Closes an entry that a command names.
    pub fn vacate(&mut self, index: u32) -> Result<T, Refusal> {
        self.opened(index)?;
        self.close(index).ok_or(self.refusal(ULN_STATUS_NOT_OPEN, index))
    }

    fn refusal(&self, status: u32, index: u32) -> Refusal {
        Refusal::new(status, index, self.entries.len() as u64)
    }

    /// Returns the open entries.
    pub fn all_open(&self) -> impl Iterator<Item = &T> {
        self.open.iter().filter_map(|index| self.entries[*index as usize].as_ref())
    }
}

impl<T> Deref for Table<T> {
    type Target = [Option<T>];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.entries
    }
}

impl<T> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_entries_are_tracked() {
        let mut table = Table::new(1000);
        let place = table.as_ptr();
        for index in [3, 999, 500] {
            table.open(index, index);
        }
        assert_eq!(table.close(500), Some(500));
        assert_eq!(table.close(500), None);
        assert_eq!(table.all_open().copied().collect::<Vec<_>>(), [3, 999]);
        table.close_all();
        assert!(table.iter().all(Option::is_none) && table.all_open().next().is_none());
        assert_eq!((table.len(), table.as_ptr()), (1000, place), "it is the same table");
    }
}
