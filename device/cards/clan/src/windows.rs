//! Windows: pages of BAR 2 that are mapped to another host's aperture (section 3.2).

use std::collections::BTreeMap;

use hamlyn_abi::clan::aperture::{CLAN_GROUP_HOST, CLAN_GROUPS};
use hamlyn_abi::clan::command::{CLAN_PRIVILEGED, ClanOpenWindow};
use hamlyn_abi::family::command::*;
use hamlyn_card::chassis::refusal::Refusal;

use crate::PAGE;

/// An aperture, or a group, as a sender names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) host: u16,
    pub(crate) aperture: u32,
    pub(crate) key: u64,
}

impl Remote {
    /// `None`: there can be no such host.
    pub(crate) fn new(host: u32, aperture: u32, key: u64) -> Option<Self> {
        let is_group = (CLAN_GROUP_HOST..CLAN_GROUP_HOST + CLAN_GROUPS).contains(&host);
        let possible = host < CLAN_GROUP_HOST || is_group && aperture == 0;
        possible.then_some(Self { host: host as u16, aperture, key })
    }

    /// Its group, if it is one.
    pub(crate) fn group(self) -> Option<u32> {
        u32::from(self.host).checked_sub(CLAN_GROUP_HOST)
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

/// All windows, by their first page.
#[derive(Debug)]
pub(crate) struct Windows {
    pages: u32,
    open: BTreeMap<u32, Window>,
}

impl Windows {
    pub(crate) fn new(pages: u32) -> Self {
        Self { pages, open: BTreeMap::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Opens a window. That its endpoint is there the caller has looked.
    pub(crate) fn open(&mut self, first: u32, body: &ClanOpenWindow) -> Result<(), Refusal> {
        if first >= self.pages {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_INDEX, first, self.pages));
        }
        if body.flags & !CLAN_PRIVILEGED != 0 {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.flags, CLAN_PRIVILEGED));
        }
        let host = Remote::new(body.host, body.aperture, body.key);
        let remote = host.ok_or(Refusal::new(HAMLYN_STATUS_BAD_VALUE, body.host, CLAN_GROUP_HOST))?;
        let room = u64::from(self.pages - first) * PAGE;
        if body.length == 0 || body.length > room {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_LENGTH, body.length, room));
        }
        if body.offset % 8 != 0 || body.offset.checked_add(body.length).is_none() {
            return Err(Refusal::new(HAMLYN_STATUS_BAD_ADDRESS, body.offset, 8_u32));
        }
        let end = first + body.length.div_ceil(PAGE) as u32;
        let before = self.open.range(..end).next_back();
        if before.is_some_and(|(start, window)| start + window.length.div_ceil(PAGE) as u32 > first) {
            return Err(Refusal::new(HAMLYN_STATUS_IN_USE, first, self.pages));
        }
        let ClanOpenWindow { offset, length, endpoint, flags, .. } = *body;
        let privileged = flags & CLAN_PRIVILEGED != 0;
        self.open.insert(first, Window { remote, offset, length, endpoint, privileged });
        Ok(())
    }

    pub(crate) fn close(&mut self, first: u32) -> Result<Window, Refusal> {
        self.open.remove(&first).ok_or(Refusal::new(HAMLYN_STATUS_NOT_OPEN, first, self.pages))
    }

    /// Whether any names the endpoint.
    pub(crate) fn name(&self, endpoint: u32) -> bool {
        self.open.values().any(|window| window.endpoint == endpoint)
    }

    /// The window that has a byte of the window pages, its first page, and which byte of the window it is: perhaps one behind its last.
    pub(crate) fn at(&self, byte: u64) -> Option<(u32, Window, u64)> {
        let page = u32::try_from(byte / PAGE).ok()?;
        let (first, window) = self.open.range(..=page).next_back()?;
        let offset = byte - u64::from(*first) * PAGE;
        (offset < window.length.next_multiple_of(PAGE)).then_some((*first, *window, offset))
    }
}
