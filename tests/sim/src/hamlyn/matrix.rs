//! The switch's file of express memory, its mappings in processes, and the owner of each page.
//!
//! A page that one area maps is mapped by no other area, and by no view except that area's. This
//! holds at any moment, whatever has happened to the processes. So no process sees or changes
//! another one's memory.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_sys::Mapping;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::engine::memory::PAGE;
use crate::engine::violation::{Violation, ensure};

/// Pages of the part that two hosts share: few, so that they run out.
pub(super) const PAGES: u32 = 24;
/// Identity of the memory.
pub(super) const MEMORY: u64 = 77;

/// An area, by its creator and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AreaName {
    pub(super) host: u32,
    pub(super) number: u32,
}

/// The mappings of a page.
#[derive(Debug, Default)]
struct Seen {
    area: Option<AreaName>,
    /// The area of the view that maps it.
    view: Option<AreaName>,
}

/// The memory.
#[derive(Debug)]
pub(super) struct Matrix {
    hosts: u32,
    /// A part for each pair of hosts, and a spare page for each host.
    file: OwnedFd,
    pages: Mutex<Vec<Seen>>,
}

impl Matrix {
    pub(super) fn new(hosts: u32) -> Result<Arc<Self>, Violation> {
        let parts = u64::from(hosts * hosts * PAGES);
        let file = memfd_create("matrix", MemfdFlags::CLOEXEC).map_err(Violation::new)?;
        ftruncate(&file, (parts + u64::from(hosts)) * PAGE).map_err(Violation::new)?;
        let pages = Mutex::new((0..parts).map(|_| Seen::default()).collect());
        Ok(Arc::new(Self { hosts, file, pages }))
    }

    fn pages(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, pair: [u32; 2], page: u32) -> usize {
        let (low, high) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
        ((low * self.hosts + high) * PAGES + page) as usize
    }

    /// Maps cleared pages into a process, for an area that its host has created for another host.
    pub(super) fn area(&self, name: AreaName, with: u32, pages: &[u32]) -> Result<Arc<Mapping>, Violation> {
        let mut all = self.pages();
        for page in pages {
            let seen = &mut all[self.place([name.host, with], *page)];
            ensure(seen.area.is_none() && seen.view.is_none(), || {
                format!(
                    "page {page} of hosts {} and {with} is given to {name:?}, but is seen: {seen:?}",
                    name.host
                )
            })?;
            seen.area = Some(name);
        }
        drop(all);
        let memory = self.map([name.host, with], pages)?;
        memory.write(0, &vec![0; memory.length()]);
        Ok(memory)
    }

    /// Maps the same pages into a process of another host that views the area.
    pub(super) fn view(&self, of: AreaName, by: u32, pages: &[u32]) -> Result<Arc<Mapping>, Violation> {
        let mut all = self.pages();
        for page in pages {
            let seen = &mut all[self.place([of.host, by], *page)];
            ensure(seen.view.is_none() && seen.area.is_none_or(|area| area == of), || {
                format!(
                    "page {page} of hosts {} and {by} is viewed as {of:?}, but is seen: {seen:?}",
                    of.host
                )
            })?;
            seen.view = Some(of);
        }
        drop(all);
        self.map([of.host, by], pages)
    }

    fn map(&self, pair: [u32; 2], pages: &[u32]) -> Result<Arc<Mapping>, Violation> {
        let memory = Mapping::anonymous(pages.len() * PAGE as usize).map_err(Violation::new)?;
        for (index, page) in pages.iter().enumerate() {
            let from = self.place(pair, *page) as u64 * PAGE;
            memory.show(index * PAGE as usize, &self.file, from, PAGE as usize).map_err(Violation::new)?;
        }
        Ok(Arc::new(memory))
    }

    /// Removes the pages from a process of a host, and maps its host's spare page in their place.
    pub(super) fn withdraw(&self, own: u32, with: u32, pages: &[u32], is_view: bool, memory: &Mapping) {
        let mut all = self.pages();
        let spare = u64::from(self.hosts * self.hosts * PAGES + own) * PAGE;
        for (index, page) in pages.iter().enumerate() {
            let seen = &mut all[self.place([own, with], *page)];
            *(if is_view { &mut seen.view } else { &mut seen.area }) = None;
            // Memory that was mapped this way can be remapped.
            let _ = memory.show(index * PAGE as usize, &self.file, spare, PAGE as usize);
        }
    }

    /// Checks that no page is mapped.
    pub(super) fn check_rest(&self) -> Result<(), Violation> {
        let seen = |seen: &Seen| seen.area.is_some() || seen.view.is_some();
        let pages = self.pages();
        let first = pages.iter().position(seen);
        ensure(first.is_none(), || {
            format!("express memory is seen at the end: page {first:?}: {:?}", first.map(|page| &pages[page]))
        })
    }
}
