//! Forbidden uses of the driver's calls and the card's pages. Each attempt must be refused and
//! change nothing.
//!
//! It uses the driver directly, like a program without the library. The other host is its own.

use std::io;
use std::path::Path;

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_DELIBERATE, SHRIMP_MODE_SINGLE};
use hamlyn_abi::shrimp::memory::*;
use hamlyn_abi::shrimp::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Device, Mapping};
use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};

const PAGE: usize = 4096;
/// Bytes that are exported and mapped: three pages, the last one partial.
const LENGTH: usize = 2 * PAGE + REST;
/// Bytes in the last page.
const REST: usize = 1004;
/// Seed of the exported memory's contents.
const SEED: u64 = 0x7e59;

/// An export, and a mapping to it.
struct Ground {
    device: Device,
    host: u32,
    exported: Mapping,
    export: ShrimpExport,
    mapped: Mapping,
    mapping: ShrimpMap,
}

/// Attempts that were refused, and those that were not.
#[derive(Default)]
struct Attempts {
    refused: u32,
    succeeded: Vec<String>,
}

impl Attempts {
    fn must_fail<T>(&mut self, what: &str, done: io::Result<T>, errors: &[Errno]) {
        let error = done.err().and_then(|error| error.raw_os_error());
        if errors.iter().any(|errno| error == Some(errno.raw_os_error())) {
            self.refused += 1;
        } else {
            self.succeeded.push(format!("{what}: {error:?}"));
        }
    }
}

pub(crate) fn run(path: &Path, host: u32) -> Outcome {
    let ground = Ground::prepare(path, host)?;
    let mut attempts = Attempts::default();
    ground.call_wrongly(&mut attempts)?;
    ground.map_wrongly(&mut attempts, &Device::open(path)?);
    ground.command_wrongly(&mut attempts)?;
    ground.is_unchanged()?;
    ground.still_serves()?;
    print(&json!({ "refused": attempts.refused, "succeeded": attempts.succeeded }))
}

impl Ground {
    fn prepare(path: &Path, host: u32) -> Outcome<Self> {
        let device = Device::open(path)?;
        let (exported, mapped) = (Mapping::anonymous(3 * PAGE)?, Mapping::anonymous(3 * PAGE)?);
        let mut pattern = vec![0; 3 * PAGE];
        fill_pattern(SEED, 0, &mut pattern);
        exported.write(0, &pattern);
        let mut export = ShrimpExport {
            address: exported.address(),
            length: LENGTH as u64,
            nodes: 1 << host,
            ..ShrimpExport::default()
        };
        device.card_call::<SHRIMP_IOC_EXPORT, _>(&mut export, &[&exported])?;
        let mut mapping = ShrimpMap {
            address: mapped.address(),
            length: LENGTH as u64,
            key: export.key,
            node: host,
            export: export.export,
            mode: SHRIMP_MODE_DELIBERATE,
            ..ShrimpMap::default()
        };
        device.card_call::<SHRIMP_IOC_MAP, _>(&mut mapping, &[&mapped])?;
        Ok(Self { device, host, exported, export, mapped, mapping })
    }

    /// Makes calls with invalid arguments, or with another owner's objects.
    fn call_wrongly(&self, attempts: &mut Attempts) -> Outcome {
        let memory = &Mapping::anonymous(3 * PAGE)?;
        let fresh = ShrimpExport {
            address: memory.address(),
            length: PAGE as u64,
            nodes: 1 << self.host,
            ..ShrimpExport::default()
        };
        let exports: [(&str, ShrimpExport, Errno); 6] = [
            ("no bytes", ShrimpExport { length: 0, ..fresh }, Errno::INVAL),
            ("no hosts", ShrimpExport { nodes: 0, ..fresh }, Errno::INVAL),
            ("a key of its own choice", ShrimpExport { key: 1, ..fresh }, Errno::INVAL),
            ("a number of its own choice", ShrimpExport { export: 7, ..fresh }, Errno::INVAL),
            ("commands of its own choice", ShrimpExport { commands_offset: 4096, ..fresh }, Errno::INVAL),
            ("a page twice", ShrimpExport { address: self.exported.address(), ..fresh }, Errno::BUSY),
        ];
        for (what, mut argument, error) in exports {
            let done =
                self.device.card_call::<SHRIMP_IOC_EXPORT, _>(&mut argument, &[memory, &self.exported]);
            attempts.must_fail(what, done, &[error]);
        }
        let again = ShrimpMap {
            address: memory.address(),
            mapping: 0,
            commands_offset: 0,
            window_offset: 0,
            length: PAGE as u64,
            ..self.mapping
        };
        let maps: [(&str, ShrimpMap, Errno); 9] = [
            ("a mapping of no bytes", ShrimpMap { length: 0, ..again }, Errno::INVAL),
            ("no mode", ShrimpMap { mode: 0, ..again }, Errno::INVAL),
            ("a mode that there is not", ShrimpMap { mode: 4, ..again }, Errno::INVAL),
            ("a host that there cannot be", ShrimpMap { node: 64, ..again }, Errno::HOSTUNREACH),
            ("a wrong key", ShrimpMap { key: again.key ^ 1, ..again }, Errno::ACCESS),
            ("another export", ShrimpMap { export: again.export + 1, ..again }, Errno::ACCESS),
            ("more than there is", ShrimpMap { offset: 2 * PAGE as u64, ..again }, Errno::RANGE),
            ("bytes beyond all", ShrimpMap { offset: u64::MAX - 4095, ..again }, Errno::RANGE),
            ("another place of a page", ShrimpMap { offset: 8, ..again }, Errno::DOM),
        ];
        for (what, mut argument, error) in maps {
            let done = self.device.card_call::<SHRIMP_IOC_MAP, _>(&mut argument, &[memory]);
            attempts.must_fail(what, done, &[error]);
        }
        for index in [self.export.export + 1, u32::MAX] {
            let mut object = UlnObject { index, ..UlnObject::default() };
            let done = self.device.card_call::<SHRIMP_IOC_UNEXPORT, _>(&mut object, &[]);
            attempts.must_fail("taking back another's", done, &[Errno::NOENT]);
            let mut object = UlnObject { index, ..UlnObject::default() };
            let done = self.device.card_call::<SHRIMP_IOC_UNMAP, _>(&mut object, &[]);
            attempts.must_fail("ending another's", done, &[Errno::NOENT]);
        }
        for (export, timeout_ns, error) in [
            (self.export.export, -2, Errno::INVAL),
            (self.export.export + 1, 0, Errno::NOENT),
            (u32::MAX, 0, Errno::NOENT),
        ] {
            let mut wait = ShrimpWait { timeout_ns, export, arrivals: 0 };
            let done = self.device.card_call::<SHRIMP_IOC_WAIT, _>(&mut wait, &[]);
            attempts.must_fail("waiting for another's arrivals", done, &[error]);
        }
        Ok(())
    }

    /// Maps pages that belong to another file, or too many of them.
    fn map_wrongly(&self, attempts: &mut Attempts, other: &Device) {
        let own = [self.mapping.commands_offset, self.mapping.window_offset, self.export.commands_offset];
        for offset in own {
            for (what, at, pages) in [
                ("a page more", offset, 4),
                ("pages behind", offset + 3 * PAGE as u64, 3),
                ("fewer pages", offset, 1),
            ] {
                let done = self.device.map(at, pages * PAGE, Access::ReadWrite);
                attempts.must_fail(what, done, &[Errno::INVAL, Errno::ACCESS]);
            }
            // Another open file is another protection domain, even in one process.
            let done = other.map(offset, 3 * PAGE, Access::ReadWrite);
            attempts.must_fail("another file's pages", done, &[Errno::NXIO]);
        }
        for offset in [0, PAGE as u64, 1 << 40, !0xfff] {
            if !own.contains(&offset) {
                let done = self.device.map(offset, 3 * PAGE, Access::ReadWrite);
                let errors = [Errno::NXIO, Errno::INVAL, Errno::OVERFLOW];
                attempts.must_fail("pages that belong to no mapping", done, &errors);
            }
        }
    }

    /// Makes commands and stores that the card must refuse.
    fn command_wrongly(&self, attempts: &mut Attempts) -> Outcome {
        let pages = |offset| self.device.map(offset, 3 * PAGE, Access::ReadWrite);
        let (commands, window) = (pages(self.mapping.commands_offset)?, pages(self.mapping.window_offset)?);
        let last = 2 * PAGE;
        let nonsense = [
            // More words than a page has, or than there are up to the end of the part.
            (0, SHRIMP_MAX_WORDS + 1),
            (4, SHRIMP_MAX_WORDS),
            (PAGE - 4, 2),
            (last + REST - 4, 2),
            (last + REST, 1),
            (last + PAGE - 4, 1),
            (0, 0xffff),
            // Modes that do not exist, and modes of what is not mapped out.
            (0, SHRIMP_SET_MODE + 4),
            (0, SHRIMP_SET_MODE + 0xff_ffff),
            (last + REST, SHRIMP_SET_MODE + SHRIMP_MODE_SINGLE),
            // Commands that do not exist.
            (0, 0x0400_0000),
            (0, 0x7fff_ffff),
            // Values that a failed compare writes back.
            (0, SHRIMP_BUSY | 1),
            (0, u32::MAX),
            (0, 0),
        ];
        for (offset, value) in nonsense {
            commands.store_u32(offset, value);
        }
        // Command pages accept only word accesses.
        commands.store_u64(8, 1);
        commands.store_word(16, 1_u16);
        commands.store_word(18, 1_u8);
        // Past the end of the part, and across it.
        window.store_u32(last + REST, 0x5555_5555);
        window.store_word(last + PAGE - 1, 0x55_u8);
        window.store_u64(last + REST - 4, u64::MAX);
        // An export's command pages only request reports. They start and change nothing, because
        // its pages are not mapped out.
        let receiving = pages(self.export.commands_offset)?;
        for value in [1, SHRIMP_MAX_WORDS, SHRIMP_SET_MODE + SHRIMP_MODE_SINGLE, SHRIMP_REPORT_NEXT + 1] {
            receiving.store_u32(0, value);
        }
        // A load after the stores: all of them are executed or refused by now.
        if commands.load_u32(0) != 0 {
            attempts.succeeded.push("a transfer has begun".into());
        }
        Ok(())
    }

    /// Checks that neither the exported nor the mapped memory has changed.
    fn is_unchanged(&self) -> Outcome {
        let mut bytes = vec![0; 3 * PAGE];
        self.exported.read(0, &mut bytes);
        if let Some(at) = find_difference(SEED, 0, &bytes) {
            return Err(format!("byte {at} of the exported memory has changed").into());
        }
        self.mapped.read(0, &mut bytes);
        match bytes.iter().position(|byte| *byte != 0) {
            Some(at) => Err(format!("byte {at} of the mapped memory, or behind it, has changed").into()),
            None => Ok(()),
        }
    }

    /// Checks that valid use still works: a process that has requested a report by its command page
    /// gets one for an arrival.
    fn still_serves(&self) -> Outcome {
        let asking = self.device.map(self.export.commands_offset, 3 * PAGE, Access::ReadWrite)?;
        let mut before = ShrimpWait { export: self.export.export, ..ShrimpWait::default() };
        // The start of the mapping is counted, too.
        self.device.card_call::<SHRIMP_IOC_WAIT, _>(&mut before, &[])?;
        self.send_word(0x600d_0001)?;
        while self.exported.load_u32(PAGE) != 0x600d_0001 {
            std::thread::yield_now();
        }
        let mut unasked = before;
        let done = self.device.card_call::<SHRIMP_IOC_WAIT, _>(&mut unasked, &[]);
        if done.err().and_then(|error| error.raw_os_error()) != Some(Errno::TIMEDOUT.raw_os_error()) {
            return Err("an arrival was reported that the process has not asked for".into());
        }
        asking.store_u32(PAGE, SHRIMP_REPORT_NEXT);
        // The card has the command once this load is answered.
        let _ = asking.load_u32(PAGE);
        self.send_word(0x600d_0002)?;
        let mut wait = ShrimpWait { timeout_ns: 60_000_000_000, ..before };
        self.device.card_call::<SHRIMP_IOC_WAIT, _>(&mut wait, &[])?;
        let found = self.exported.load_u32(PAGE);
        let reports = wait.arrivals.wrapping_sub(before.arrivals);
        if (found, reports) == (0x600d_0002, 1) {
            Ok(())
        } else {
            Err(format!("{found:#x} has arrived, and {reports} arrivals were reported").into())
        }
    }

    /// Sends a word of the second page by deliberate update.
    fn send_word(&self, value: u32) -> Outcome {
        let commands = self.device.map(self.mapping.commands_offset, 3 * PAGE, Access::ReadWrite)?;
        self.mapped.store_u32(PAGE, value);
        while commands.compare_exchange_u32(PAGE, 0, 1).is_err() {}
        Ok(())
    }
}
