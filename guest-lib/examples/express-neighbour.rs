//! A process that accesses express memory pages of others. Every attempt must be refused with the
//! right error.
//!
//! One open file is one protection domain, so it opens the device twice: as the victim, which has
//! an area, and as the intruder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use common::{Outcome, print};
use hamlyn_abi::uapi::*;
use hamlyn_examples as common;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use serde_json::json;

const PAGE: u64 = 4096;
/// The value of every word of the victim's area.
const MARK: u64 = 0x5a5a_0001_5a5a_0002;

/// Attempts to access express memory pages of others
#[derive(Debug, Parser)]
struct Options {
    /// The device
    #[arg(long, default_value = "/dev/hamlyn0")]
    card: PathBuf,
    /// A host with which there is express memory
    host: u32,
}

fn main() -> ExitCode {
    common::run(|| {
        let Options { card, host } = Options::parse();
        let victim = Victim::create(&card, host)?;
        let mut intruder = Intruder { device: Device::open(&card)?, attempts: 0, broken: Vec::new() };
        intruder.offsets(&victim, host)?;
        intruder.own_area(host)?;
        intruder.numbers(&victim);
        intruder.areas(host)?;
        intruder.views(host);
        victim.verify()?;
        print(&json!({ "attempts": intruder.attempts, "not_refused": intruder.broken }))
    })
}

/// The owner of an area.
struct Victim {
    device: Device,
    area: UlnExpressCreate,
    pages: Mapping,
}

impl Victim {
    fn create(card: &Path, host: u32) -> Outcome<Self> {
        let device = Device::open(card)?;
        let mut area = create(host, 3 * PAGE);
        device.express_create(&mut area)?;
        let pages = device.map(area.offset, 3 * PAGE as usize, Access::ReadWrite)?;
        (0..pages.length()).step_by(8).for_each(|at| pages.store_u64(at, MARK));
        Ok(Self { device, area, pages })
    }

    fn verify(&self) -> Outcome {
        if (0..self.pages.length()).step_by(8).any(|at| self.pages.load_u64(at) != MARK) {
            return Err("the victim's pages have changed".into());
        }
        Ok(self.device.express_destroy(&mut object(self.area.number))?)
    }
}

struct Intruder {
    device: Device,
    attempts: usize,
    broken: Vec<String>,
}

impl Intruder {
    /// Tries the offsets of objects and those between them: this file has no object at any of them.
    fn offsets(&mut self, victim: &Victim, host: u32) -> Outcome {
        let area = victim.area.offset;
        for access in [Access::Read, Access::Write, Access::ReadWrite] {
            for page in 0..3 {
                let mapped = self.device.map(area + page * PAGE, PAGE as usize, access);
                self.refused("a page of the victim's", mapped, Errno::NXIO);
            }
        }
        // Two objects of one file are this far apart.
        let mut own = [create(host, PAGE), create(host, PAGE)];
        for own in &mut own {
            self.device.express_create(own)?;
        }
        let stride = own[1].offset - own[0].offset;
        for own in own {
            self.device.express_destroy(&mut object(own.number))?;
        }
        for place in 0..area / stride + 64 {
            for within in [0, PAGE, stride / 2, stride - PAGE] {
                let offset = place * stride + within;
                let mapped = self.device.map(offset, PAGE as usize, Access::ReadWrite);
                self.refused(&format!("offset {offset:#x}"), mapped, Errno::NXIO);
            }
        }
        Ok(())
    }

    /// Maps the surroundings of its own area, where no other pages may be reachable.
    fn own_area(&mut self, host: u32) -> Outcome {
        let mut own = create(host, 2 * PAGE);
        self.device.express_create(&mut own)?;
        for (from, length) in [(0, 3), (1, 2), (2, 1), (3, 1), (0, 1 << 20)] {
            let mapped =
                self.device.map(own.offset + from * PAGE, (length * PAGE) as usize, Access::ReadWrite);
            self.refused(&format!("{length} pages from page {from}"), mapped, Errno::INVAL);
        }
        let kept = self.device.map(own.offset, 2 * PAGE as usize, Access::ReadWrite)?;
        kept.store_u64(0, MARK);
        self.device.express_destroy(&mut object(own.number))?;
        // The pages may belong to another owner now.
        if kept.load_u64(0) == MARK {
            self.broken.push("pages that were given back are still seen".into());
        }
        kept.store_u64(0, MARK);
        let mapped = self.device.map(own.offset, PAGE as usize, Access::ReadWrite);
        self.refused("what was given back", mapped, Errno::NXIO);
        self.refused(
            "it, given back again",
            self.device.express_destroy(&mut object(own.number)),
            Errno::NOENT,
        );
        Ok(())
    }

    /// Uses the numbers of other owners' areas and views.
    fn numbers(&mut self, victim: &Victim) {
        for number in (0..victim.area.number.saturating_add(64)).chain([u32::MAX]) {
            let destroyed = self.device.express_destroy(&mut object(number));
            self.refused(&format!("the end of area {number}"), destroyed, Errno::NOENT);
        }
    }

    fn areas(&mut self, host: u32) -> Outcome {
        let mut there_is = UlnExpressQuery { host, ..Default::default() };
        self.device.express_query(&mut there_is)?;
        let half = u64::from(there_is.pages) * PAGE;
        let mut query = UlnQuery::default();
        self.device.query(&mut query)?;
        for (what, area, errno) in [
            ("no page", create(host, 0), Errno::INVAL),
            ("half a page", create(host, PAGE / 2), Errno::INVAL),
            ("more than half a part", create(host, half + PAGE), Errno::INVAL),
            ("more than can be", create(host, u64::MAX - PAGE + 1), Errno::INVAL),
            ("all of the half", create(host, half), Errno::NOSPC),
            ("pages for its own host", create(query.host, PAGE), Errno::HOSTUNREACH),
            ("pages for no host", create(64, PAGE), Errno::HOSTUNREACH),
            ("pages for the last host", create(u32::MAX, PAGE), Errno::HOSTUNREACH),
            ("a number", UlnExpressCreate { number: 1, ..create(host, PAGE) }, Errno::INVAL),
            ("a key", UlnExpressCreate { key: 1, ..create(host, PAGE) }, Errno::INVAL),
            ("an offset", UlnExpressCreate { offset: PAGE, ..create(host, PAGE) }, Errno::INVAL),
            (
                "something reserved",
                UlnExpressCreate { reserved: [0, 0, 0, 1], ..create(host, PAGE) },
                Errno::INVAL,
            ),
        ] {
            self.refused(what, self.device.express_create(&mut { area }), errno);
        }
        Ok(())
    }

    fn views(&mut self, host: u32) {
        let map = |host, area, key| UlnExpressMap { host, area, key, ..Default::default() };
        for (what, view, errno) in [
            ("a view of area 0", map(host, 0, 0), Errno::ACCESS),
            ("a view of an area by an invalid key", map(host, 1, 1), Errno::ACCESS),
            ("a view of the last area", map(host, u32::MAX, u64::MAX), Errno::ACCESS),
            ("a view of no host's", map(64, 1, 1), Errno::HOSTUNREACH),
            ("a view of the last host's", map(u32::MAX, 1, 1), Errno::HOSTUNREACH),
            ("a view with a number", UlnExpressMap { number: 1, ..map(host, 1, 1) }, Errno::INVAL),
            ("a view with a length", UlnExpressMap { length: PAGE, ..map(host, 1, 1) }, Errno::INVAL),
            (
                "a view with something reserved",
                UlnExpressMap { reserved: [0, 0, 1], ..map(host, 1, 1) },
                Errno::INVAL,
            ),
        ] {
            self.refused(what, self.device.express_map(&mut { view }), errno);
        }
    }

    fn refused<T>(&mut self, what: &str, outcome: io::Result<T>, errno: Errno) {
        self.attempts += 1;
        let errno = io::Error::from(errno);
        match outcome {
            Err(error) if error.raw_os_error() == errno.raw_os_error() => {}
            Err(error) => self.broken.push(format!("{what}: {error}, not {errno}")),
            Ok(_) => self.broken.push(what.to_owned()),
        }
    }
}

fn create(host: u32, length: u64) -> UlnExpressCreate {
    UlnExpressCreate { host, length, ..Default::default() }
}

fn object(index: u32) -> UlnObject {
    UlnObject { index, ..Default::default() }
}
