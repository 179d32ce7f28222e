//! Areas and views of express memory, by number, as a process has them.

use hamlyn_abi::kernel::express::UlnExpressPages;
use hamlyn_abi::uapi::UlnExpressQuery;
use rustix::io::{Errno, Result};

use crate::{Ports, System};

/// State of an area or a view, as returned by C.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct EndState {
    state: u32,
    error: i32,
    pub(crate) number: u32,
    count: u32,
    key: u64,
    pages: UlnExpressPages,
}

const ASKING: u32 = 0;
const OPEN: u32 = 1;

/// An area or a view that a process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The area's number for other hosts.
    pub number: u32,
    /// The area's key.
    pub key: u64,
    /// Its pages, in order, as page numbers of the part.
    pub pages: Vec<u32>,
}

impl System {
    /// Starts express memory of this host, with id `own`.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn express_begin(&mut self, ports: &mut dyn Ports, own: u32) -> Result<()> {
        self.host.express_begin(ports, own)
    }

    /// Adds the part with another host, with `pages` pages of memory `memory`. Call this after
    /// [`System::express_begin`].
    ///
    /// # Errors
    /// `INVAL`: such a part is impossible; `BUSY`: it already exists; `NOMEM`.
    pub fn express_part(&mut self, ports: &mut dyn Ports, host: u32, memory: u64, pages: u32) -> Result<()> {
        self.host.express_part(ports, host, memory, pages)
    }

    /// Ends express memory.
    pub fn express_stop(&mut self, ports: &mut dyn Ports) {
        self.host.express_stop(ports);
    }

    /// Makes an area of `pages` pages for a host, and returns its number for this process. The
    /// caller must clear the pages.
    ///
    /// # Errors
    /// Those of `uln_express_create` in `guest-driver/kernel/uln_express.h`. `AGAIN`: retry
    /// with `again` once anything is woken.
    pub fn express_create(
        &mut self,
        ports: &mut dyn Ports,
        host: u32,
        pages: u32,
        again: bool,
    ) -> Result<u32> {
        self.host.express_create(ports, host, pages, again)
    }

    /// Requests a view of another host's area, and returns the view's number for this process.
    ///
    /// # Errors
    /// `HOSTUNREACH`, `NOMEM`.
    pub fn express_map(&mut self, ports: &mut dyn Ports, host: u32, area: u32, key: u64) -> Result<u32> {
        self.host.express_map(ports, host, area, key)
    }

    /// Gives an area or a view back. Its process must no longer have access to it.
    pub fn express_close(&mut self, ports: &mut dyn Ports, number: u32) {
        self.host.express_close(ports, number);
    }

    /// Returns an area or a view, or `None` while a view waits for its answer.
    ///
    /// # Errors
    /// Why there is none.
    pub fn express(&self, number: u32) -> Result<Option<End>> {
        let end = self.host.express_look(number).ok_or(Errno::NOENT)?;
        match end.state {
            ASKING => Ok(None),
            OPEN => {
                let runs = end.pages.run.iter().take(end.pages.runs as usize);
                let pages = runs.flat_map(|run| run.first..run.first + run.count).collect();
                Ok(Some(End { number: end.number, key: end.key, pages }))
            }
            _ if end.error == 0 => Err(Errno::NODEV),
            _ => Err(Errno::from_raw_os_error(-end.error)),
        }
    }

    /// Selects the user, 0 or 1, for later express memory requests. `messages` is this user's limit
    /// of waiting messages for each host.
    pub fn express_user(&mut self, user: u32, messages: u32) {
        self.host.express_user(user, messages);
    }

    /// Reserves `pages` pages of this host's half of each part for other users.
    pub fn express_spare(&mut self, pages: u32) {
        self.host.express_spare(pages);
    }

    /// Returns the state of the express memory with a host.
    pub fn express_query(&mut self, ports: &mut dyn Ports, host: u32) -> UlnExpressQuery {
        let mut query = UlnExpressQuery { host, ..UlnExpressQuery::default() };
        self.host.express_describe(ports, &mut query);
        query
    }
}
