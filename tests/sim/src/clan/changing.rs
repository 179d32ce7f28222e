//! Random actions of drivers, as when processes start and exit, and invalid ones.

use hamlyn_abi::clan::aperture::*;
use hamlyn_abi::clan::command::*;
use hamlyn_abi::clan::statistics::ClanStatistic as Counter;
use hamlyn_abi::family::area::UlnArea;

use crate::engine::violation::{Violation, ensure};

use super::account::Account;
use super::actions::Action;
use super::objects::Window;
use super::turn::Turn;

/// Changes what a host's driver has opened.
#[derive(Debug)]
pub(super) struct Changing<'a> {
    pub(super) turn: Turn<'a>,
}

impl Changing<'_> {
    /// Does what an operating system does after power-on.
    pub(super) fn set_up(&mut self) -> Result<(), Violation> {
        self.turn.driver().open_fifo()?;
        for owner in 1..=2 {
            let queue = if self.turn.rng.percent(80) { self.turn.driver().open_queue(owner)? } else { None };
            for _ in 0..self.turn.rng.range(1, 2) {
                self.turn.driver().open_endpoint(owner, 0, queue)?;
            }
            for _ in 0..self.turn.rng.range(1, 3) {
                self.open_some_aperture(owner)?;
            }
        }
        for _ in 0..self.turn.rng.range(1, 4) {
            self.open_some_window()?;
        }
        Ok(())
    }

    fn open_some_aperture(&mut self, owner: u32) -> Result<(), Violation> {
        let (both, mut group) = (CLAN_APERTURE_READ | CLAN_APERTURE_WRITE, None);
        let flags = match self.turn.rng.below(12) {
            0 => 0,
            1 => CLAN_APERTURE_READ,
            2 => CLAN_APERTURE_WRITE,
            3 => both | CLAN_APERTURE_PRIVILEGED,
            4 => both | CLAN_APERTURE_PARTS,
            5 => both | CLAN_APERTURE_PARTS | CLAN_APERTURE_PRIVILEGED,
            6 | 7 => {
                group = self.turn.rng.pick(&[0, 1, 63]);
                CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP
            }
            _ => both,
        };
        self.turn.driver().open_aperture(owner, flags, group).map(drop)
    }

    fn open_some_window(&mut self) -> Result<(), Violation> {
        let Some(to) = self.turn.plan().some_descriptor() else { return Ok(()) };
        let Some(endpoint) = self.some_endpoint() else { return Ok(()) };
        let offset = if self.turn.rng.percent(70) { 0 } else { self.turn.rng.below(to.length) / 8 * 8 };
        let rest = to.length - offset;
        let length = if self.turn.rng.percent(70) { rest } else { 1 + self.turn.rng.below(rest) };
        let flags = self.turn.account().ledger.endpoints()[&endpoint].flags;
        let window =
            Window { key: to.key, offset, length, host: to.host, aperture: to.aperture, endpoint, flags };
        self.turn.driver().open_window(window).map(drop)
    }

    /// Opens or closes a random object as the driver, as when processes start and exit. Returns the
    /// owner of a process that is killed.
    pub(super) fn change(&mut self) -> Result<Option<u32>, Violation> {
        let owner = self.turn.rng.range(1, 2);
        match self.turn.rng.below(17) {
            16 => return Ok(self.turn.rng.percent(30).then_some(owner)),
            0..3 => self.open_some_aperture(owner)?,
            3..6 => {
                let all: Vec<u32> = self.turn.account().ledger.apertures().keys().copied().collect();
                let number = self.turn.rng.pick(&all);
                number.map_or(Ok(()), |number| self.close_aperture(number))?;
            }
            6..9 => self.open_some_window()?,
            9 | 10 => {
                let Turn { accounts, rng, host, .. } = &mut self.turn;
                let window = accounts[*host].ledger.some_window(rng);
                window.map_or(Ok(()), |(first, _)| self.close_window(first))?;
            }
            11 => {
                let queue = self.queue_of(owner);
                let flags = if self.turn.rng.percent(20) { CLAN_PRIVILEGED } else { 0 };
                self.turn.driver().open_endpoint(owner, flags, queue)?;
            }
            12 => {
                let number = self.some_endpoint();
                number.map_or(Ok(()), |number| self.close_endpoint(number))?;
            }
            13 => {
                let Some(number) = self.some_endpoint() else { return Ok(None) };
                let owner = self.turn.account().ledger.endpoints()[&number].owner;
                let queue = if self.turn.rng.percent(30) { None } else { self.queue_of(owner) };
                self.turn.driver().set_events(number, queue)?;
            }
            14 => drop(self.turn.driver().open_queue(owner)?),
            _ => {
                let all: Vec<u32> = self.turn.account().events.queues().collect();
                let number = self.turn.rng.pick(&all).filter(|_| self.turn.rng.percent(40));
                number.map_or(Ok(()), |number| self.turn.driver().close_queue(number))?;
            }
        }
        Ok(None)
    }

    /// Kills a process in the middle of its actions. Its driver closes all its objects, kind by
    /// kind.
    pub(super) fn kill(&mut self, owner: u32) -> Result<(), Violation> {
        for processor in self.turn.processors.iter_mut().filter(|processor| processor.owner() == owner) {
            processor.forget(|_| true);
        }
        let Account { ledger, events, .. } = self.turn.account();
        let endpoints = ledger.endpoints().iter().filter(|(_, one)| one.owner == owner);
        let endpoints: Vec<u32> = endpoints.map(|(number, _)| *number).collect();
        let apertures = ledger.apertures().iter().filter(|(_, one)| one.owner == owner);
        let apertures: Vec<u32> = apertures.map(|(number, _)| *number).collect();
        let windows = ledger.windows().iter().filter(|(_, window)| endpoints.contains(&window.endpoint));
        let windows: Vec<u32> = windows.map(|(first, _)| *first).collect();
        let queues = events.queues_of(owner);
        windows.into_iter().try_for_each(|first| self.close_window(first))?;
        endpoints.into_iter().try_for_each(|number| self.close_endpoint(number))?;
        queues.into_iter().try_for_each(|number| self.turn.driver().close_queue(number))?;
        apertures.into_iter().try_for_each(|number| self.close_aperture(number))
    }

    fn queue_of(&mut self, owner: u32) -> Option<u32> {
        let all = self.turn.account().events.queues_of(owner);
        self.turn.rng.pick(&all)
    }

    fn some_endpoint(&mut self) -> Option<u32> {
        let Turn { accounts, rng, host, .. } = &mut self.turn;
        accounts[*host].ledger.some_endpoint(rng, None)
    }

    /// Drops actions on an object that no longer exists.
    fn forget_actions(&mut self, is_gone: impl Fn(&Action) -> bool) {
        self.turn.processors.iter_mut().for_each(|processor| processor.forget(&is_gone));
    }

    fn close_aperture(&mut self, number: u32) -> Result<(), Violation> {
        self.forget_actions(|action| matches!(action, Action::Poke { aperture, .. } if *aperture == number));
        self.turn.driver().close_aperture(number)
    }

    fn close_window(&mut self, first: u32) -> Result<(), Violation> {
        self.forget_actions(
            |action| matches!(action, Action::Stores { window, .. } | Action::Load { window, .. } if *window == first),
        );
        self.turn.driver().close_window(first)
    }

    fn close_endpoint(&mut self, number: u32) -> Result<(), Violation> {
        let windows = self.turn.account().ledger.windows_of(number);
        self.forget_actions(|action| match action {
            Action::Stores { window, .. } | Action::Load { window, .. } => windows.contains(window),
            Action::Put { endpoint, .. }
            | Action::Set { endpoint, .. }
            | Action::Overstate { endpoint, .. }
            | Action::Rewrite { endpoint }
            | Action::Restate { endpoint }
            | Action::Clear { endpoint, .. } => *endpoint == number,
            _ => false,
        });
        self.turn.driver().close_endpoint(number)
    }

    /// Runs an invalid command, which must be refused and must change nothing.
    pub(super) fn command_nonsense(&mut self) -> Result<(), Violation> {
        self.turn.check()?;
        let machine = self.turn.account().machine.clone();
        let area = UlnArea { length: 64, ..Default::default() };
        let options = machine.options;
        let aperture = ClanOpenAperture { area, ..ClanOpenAperture::default() };
        let window = ClanOpenWindow { length: 64, endpoint: options.endpoints, ..ClanOpenWindow::default() };
        let (id, which) = (machine.id, self.turn.rng.below(9));
        let refused = match which {
            0 => machine.command(CLAN_COMMAND_OPEN_APERTURE, options.apertures, &aperture)?,
            1 => {
                let odd = UlnArea { first: 3, ..area };
                machine.command(
                    CLAN_COMMAND_OPEN_APERTURE,
                    15,
                    &ClanOpenAperture { area: odd, ..aperture },
                )?
            }
            2 => machine.command(
                CLAN_COMMAND_OPEN_APERTURE,
                15,
                &ClanOpenAperture { flags: 64, ..aperture },
            )?,
            3 => machine.command(CLAN_COMMAND_OPEN_WINDOW, 0, &window)?,
            4 => machine.command(CLAN_COMMAND_OPEN_WINDOW, options.window_pages, &window)?,
            5 => machine.command(CLAN_COMMAND_CLOSE_APERTURE, options.apertures, &[0_u8; 0])?,
            6 => machine.command(CLAN_COMMAND_OPEN_FIFO, 0, &[0_u8; 32])?,
            7 => machine.command(CLAN_COMMAND_OPEN_ENDPOINT, 0, &[0xff_u8; 48])?,
            _ => machine.command(self.turn.rng.range(14, 0x0fff), 0, &aperture)?,
        };
        ensure(refused.is_err(), || format!("host {id}: nonsense {which} was carried out"))?;
        self.turn.account().count(Counter::CommandsRefused, 1);
        self.turn.check()
    }

    /// Stores to an unused place, or an invalid value, as a process.
    pub(super) fn store_nonsense(&mut self) -> Result<(), Violation> {
        self.turn.check()?;
        let machine = self.turn.account().machine.clone();
        let page = self.turn.rng.below(machine.options.endpoints.into()) as u32;
        let width = self.turn.rng.pick(&[1, 2, 4, 8]).unwrap_or(4);
        // Words that have a meaning are avoided.
        let at = match self.turn.rng.below(3) {
            0 => 0x810 + self.turn.rng.below(0x7e8),
            1 => 64 * self.turn.rng.below(32) + 0x20 + self.turn.rng.below(0x18),
            _ => 64 * self.turn.rng.below(32) + 0x1c,
        };
        let at = at / u64::from(width) * u64::from(width);
        let at = if at % 64 < 0x1c && at < 0x800 { 0x900 } else { at };
        let value = self.turn.rng.next();
        machine.store_page(page, at, width, value)?;
        self.turn.check()
    }
}
