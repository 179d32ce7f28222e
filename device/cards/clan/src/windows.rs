//! Windows: pages of BAR 2 that are mapped to another host's aperture (section 3.2).

use std::ops::Range;

use hamlyn_abi::clan::aperture::{CLAN_GROUP_HOST, CLAN_GROUPS};
use hamlyn_abi::clan::command::{CLAN_PRIVILEGED, ClanOpenWindow};
use hamlyn_abi::family::command::*;
use hamlyn_card::chassis::refusal::Refusal;
use hamlyn_card::chassis::table::Table;

use crate::PAGE;
use crate::packet::{Header, TO_GROUP};

/// An aperture, or a group, as a sender names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) host: u16,
    pub(crate) aperture: u32,
    pub(crate) key: u64,
}

impl Remote {
    /// Returns `None` if there can be no such host.
    pub(crate) fn new(host: u32, aperture: u32, key: u64) -> Option<Self> {
        let is_group = (CLAN_GROUP_HOST..CLAN_GROUP_HOST + CLAN_GROUPS).contains(&host);
        let possible = host < CLAN_GROUP_HOST || is_group && aperture == 0;
        possible.then_some(Self { host: host as u16, aperture, key })
    }

    /// Returns the number of the group, if it is one.
    pub(crate) fn group(self) -> Option<u32> {
        u32::from(self.host).checked_sub(CLAN_GROUP_HOST)
    }

    /// Returns a packet's header with this destination.
    pub(crate) fn addressed(self, header: Header) -> Header {
        let (group, to) = self.group().map_or((0, self.aperture), |group| (TO_GROUP, group));
        Header { flags: header.flags | group, key: self.key.into(), aperture: to.into(), ..header }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) remote: Remote,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) endpoint: u32,
    pub(crate) privileged: bool,
}

/// Marks a page that belongs to no window.
const NONE: u32 = u32::MAX;

/// All windows, by their first page.
#[derive(Debug)]
pub(crate) struct Windows {
    open: Table<Window>,
    /// For each page, the first page of its window. Each store looks it up. A search would access
    /// memory once for each step.
    first: Vec<u32>,
}

impl Windows {
    pub(crate) fn new(pages: u32) -> Self {
        Self { open: Table::new(pages), first: vec![NONE; pages as usize] }
    }

    pub(crate) fn clear(&mut self) {
        self.open.close_all();
        self.first.fill(NONE);
    }

    /// Returns the number of pages.
    fn pages(&self) -> u32 {
        self.first.len() as u32
    }

    /// Opens a window. The caller has checked that its endpoint exists.
    pub(crate) fn open(&mut self, first: u32, body: &ClanOpenWindow) -> Result<(), Refusal> {
        if first >= self.pages() {
            return Err(Refusal::new(ULN_STATUS_BAD_INDEX, first, self.pages()));
        }
        if body.flags & !CLAN_PRIVILEGED != 0 {
            return Err(Refusal::new(ULN_STATUS_BAD_VALUE, body.flags, CLAN_PRIVILEGED));
        }
        let host = Remote::new(body.host, body.aperture, body.key);
        let remote = host.ok_or(Refusal::new(ULN_STATUS_BAD_VALUE, body.host, CLAN_GROUP_HOST))?;
        let room = u64::from(self.pages() - first) * PAGE;
        if body.length == 0 || body.length > room {
            return Err(Refusal::new(ULN_STATUS_BAD_LENGTH, body.length, room));
        }
        if body.offset % 8 != 0 || body.offset.checked_add(body.length).is_none() {
            return Err(Refusal::new(ULN_STATUS_BAD_ADDRESS, body.offset, 8_u32));
        }
        let ClanOpenWindow { offset, length, endpoint, flags, .. } = *body;
        let window = Window { remote, offset, length, endpoint, privileged: flags & CLAN_PRIVILEGED != 0 };
        let pages = window.pages(first);
        if self.first[pages.clone()].iter().any(|first| *first != NONE) {
            return Err(Refusal::new(ULN_STATUS_IN_USE, first, self.pages()));
        }
        self.first[pages].fill(first);
        self.open.open(first, window);
        Ok(())
    }

    pub(crate) fn close(&mut self, first: u32) -> Result<Window, Refusal> {
        let closed = self.open.close(first);
        let closed = closed.ok_or(Refusal::new(ULN_STATUS_NOT_OPEN, first, self.pages()))?;
        self.first[closed.pages(first)].fill(NONE);
        Ok(closed)
    }

    /// Returns whether any window names the endpoint.
    pub(crate) fn name(&self, endpoint: u32) -> bool {
        self.open.all_open().any(|window| window.endpoint == endpoint)
    }

    /// Returns the window that contains a byte of the window pages, its first page, and the byte's
    /// offset in the window. The offset may be behind the window's last byte.
    pub(crate) fn at(&self, byte: u64) -> Option<(u32, Window, u64)> {
        let page = usize::try_from(byte / PAGE).ok()?;
        let first = *self.first.get(page)?;
        let window = self.open.at(first)?;
        Some((first, *window, byte - u64::from(first) * PAGE))
    }
}

impl Window {
    /// Returns the window's pages. `first` is the first of them.
    fn pages(&self, first: u32) -> Range<usize> {
        first as usize..first as usize + self.length.div_ceil(PAGE) as usize
    }
}
