//! Express memory of a host: the driver's areas and views, and their mappings in processes.
//!
//! `hamlyn_driver_host`, the driver's own code, assigns their pages. This module does the rest of
//! the driver's work: it maps the pages into a process, and unmaps them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hamlyn_driver_host::{Ports, System};
use hamlyn_sys::Mapping;
use rustix::io::Errno;

use crate::hamlyn::matrix::{AreaName, MEMORY, Matrix, PAGES};

/// The express memory of a host.
#[derive(Debug)]
pub(super) struct Express {
    pub(super) matrix: Arc<Matrix>,
    pub(super) own: u32,
    ends: Mutex<Ends>,
}

#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Areas and views by the driver's number.
    pub(super) held: BTreeMap<u32, Held>,
    /// Hosts that have been asked to settle.
    pub(super) settling: BTreeSet<u32>,
}

/// An area or a view of a process.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) pid: u64,
    /// The library's number for it.
    pub(super) number: u32,
    pub(super) host: u32,
    /// For a view, its area and its key.
    pub(super) of: Option<(AreaName, u64)>,
    /// Its pages and mapping, from when it is mapped until it is withdrawn.
    pub(super) shown: Option<(Vec<u32>, Arc<Mapping>)>,
}

impl Express {
    pub(super) fn new(matrix: Arc<Matrix>, own: u32) -> Self {
        Self { matrix, own, ends: Mutex::default() }
    }

    /// Tells the driver that it has found the memory.
    pub(super) fn begin(
        &self,
        system: &mut System,
        ports: &mut dyn Ports,
        hosts: u32,
    ) -> rustix::io::Result<()> {
        system.express_begin(ports, self.own)?;
        for host in (0..hosts).filter(|host| *host != self.own) {
            match system.express_part(ports, host, MEMORY, PAGES) {
                // It was present all the time.
                Ok(()) | Err(Errno::BUSY) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    pub(super) fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn views(&self, pid: u64, of: AreaName) -> bool {
        let ends = self.ends();
        ends.held.values().any(|held| {
            held.pid == pid && held.of.is_some_and(|(area, _)| area == of) && held.shown.is_some()
        })
    }

    /// Takes the pages of an area or a view away from its process, as the driver.
    pub(super) fn withdraw(&self, number: u32) {
        if let Some(held) = self.ends().held.get_mut(&number) {
            self.hide(held);
        }
    }

    pub(super) fn hide(&self, held: &mut Held) {
        if let Some((pages, memory)) = held.shown.take() {
            self.matrix.withdraw(self.own, held.host, &pages, held.of.is_some(), &memory);
        }
    }
}
