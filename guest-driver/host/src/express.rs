//! Areas of express memory, and views, by number, as a process has them.

use hamlyn_abi::kernel::express::HamlynExpressPages;
use hamlyn_abi::uapi::HamlynExpressQuery;
use rustix::io::{Errno, Result};

use crate::{Ports, System};

/// How an area or a view stands, as C tells it.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct EndState {
    state: u32,
    error: i32,
    pub(crate) number: u32,
    count: u32,
    key: u64,
    pages: HamlynExpressPages,
}

const ASKING: u32 = 0;
const OPEN: u32 = 1;

/// An area or a view that its process has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// An area's number for others.
    pub number: u32,
    /// An area's key.
    pub key: u64,
    /// Its pages, as pages of the part, in their order.
    pub pages: Vec<u32>,
}

impl System {
    /// There is express memory of this host's, `own`.
    ///
    /// # Errors
    /// `NOMEM`.
    pub fn express_begin(&mut self, ports: &mut dyn Ports, own: u32) -> Result<()> {
        self.host.express_begin(ports, own)
    }

    /// The part with another host is there: so many pages of this memory. After
    /// [`System::express_begin`].
    ///
    /// # Errors
    /// `INVAL`: there can be no such part; `BUSY`: it is there; `NOMEM`.
    pub fn express_part(&mut self, ports: &mut dyn Ports, host: u32, memory: u64, pages: u32) -> Result<()> {
        self.host.express_part(ports, host, memory, pages)
    }

    /// There is no express memory any more.
    pub fn express_stop(&mut self, ports: &mut dyn Ports) {
        self.host.express_stop(ports);
    }

    /// Makes an area for a host, of so many pages, which have to be cleared. Its number for this
    /// process.
    ///
    /// # Errors
    /// Those of `hamlyn_express_create` in `guest-driver/kernel/hamlyn_express.h`; `AGAIN`: `again`
    /// is to be tried once anything is woken.
    pub fn express_create(
        &mut self,
        ports: &mut dyn Ports,
        host: u32,
        pages: u32,
        again: bool,
    ) -> Result<u32> {
        self.host.express_create(ports, host, pages, again)
    }

    /// Asks for a view of another host's area. Its number for this process.
    ///
    /// # Errors
    /// `HOSTUNREACH`, `NOMEM`.
    pub fn express_map(&mut self, ports: &mut dyn Ports, host: u32, area: u32, key: u64) -> Result<u32> {
        self.host.express_map(ports, host, area, key)
    }

    /// Gives an area or a view back, whose process sees it no more.
    pub fn express_close(&mut self, ports: &mut dyn Ports, number: u32) {
        self.host.express_close(ports, number);
    }

    /// An area or a view. None: it is being asked for.
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

    /// From now on one of two users asks for express memory, 0 or 1, of whom so many messages may
    /// wait for each host.
    pub fn express_user(&mut self, user: u32, messages: u32) {
        self.host.express_user(user, messages);
    }

    /// So many pages of each half that is this host's to give are not this process' user's to have,
    /// but others'.
    pub fn express_spare(&mut self, pages: u32) {
        self.host.express_spare(pages);
    }

    /// What there is of express memory with a host.
    pub fn express_query(&mut self, ports: &mut dyn Ports, host: u32) -> HamlynExpressQuery {
        let mut query = HamlynExpressQuery { host, ..HamlynExpressQuery::default() };
        self.host.express_describe(ports, &mut query);
        query
    }
}
