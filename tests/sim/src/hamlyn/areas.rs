//! The driver's calls for areas and views of a process.

use hamlyn::attach::ExpressParts;
use hamlyn::{Error, Result};
use hamlyn_abi::uapi::UlnExpressQuery;
use rustix::io::Errno;

use crate::engine::memory::PAGE;
use crate::engine::violation::Violation;
use crate::hamlyn::express::{Express, Held};
use crate::hamlyn::kernel::Kernel;
use crate::hamlyn::matrix::AreaName;

/// First number of a view in the library. Areas have lower numbers.
const VIEWS: u32 = 1 << 31;

fn refused(errno: Errno) -> Error {
    Error::System { action: "have express memory".into(), source: errno.into() }
}

/// Turns a violation by the card or the driver into a library error, so that it reaches the caller.
pub(super) fn wrong(violation: Violation) -> Error {
    Error::System { action: "go on".into(), source: std::io::Error::other(violation) }
}

/// Returns whether a process has a view of an area, and the view is mapped.
pub(super) fn views(kernel: &Kernel, pid: u64, of: AreaName) -> bool {
    kernel.express().is_some_and(|express| express.views(pid, of))
}

fn express(kernel: &Kernel) -> Result<&Express> {
    kernel.express().ok_or(Error::Unsupported("this fabric has no express memory"))
}

/// Returns the state of the memory shared with a host.
pub(super) fn query(kernel: &Kernel, host: u32) -> Result<UlnExpressQuery> {
    express(kernel)?;
    kernel.system_call(|system, ports| Ok(system.express_query(ports, host))).map_err(refused)
}

/// Creates an area. On `EAGAIN`, the caller must try again later.
pub(super) fn create(kernel: &Kernel, pid: u64, host: u32, length: usize) -> Result<ExpressParts> {
    let express = express(kernel)?;
    let again = express.ends().settling.remove(&host);
    let pages = (length as u64).div_ceil(PAGE) as u32;
    let made = kernel.system_call(|system, ports| {
        let number = system.express_create(ports, host, pages, again)?;
        Ok((number, system.express(number)?.ok_or(Errno::NODEV)?))
    });
    if made == Err(Errno::AGAIN) {
        express.ends().settling.insert(host);
    }
    let (handle, end) = made.map_err(refused)?;
    let name = AreaName { host: express.own, number: end.number };
    let memory = express.matrix.area(name, host, &end.pages).map_err(wrong)?;
    let shown = Some((end.pages, memory.clone()));
    express.ends().held.insert(handle, Held { pid, number: end.number, host, of: None, shown });
    Ok(ExpressParts { number: end.number, key: end.key, memory })
}

/// Asks for a view. [`view_is_decided`] tells whether there is an answer.
pub(super) fn ask_for_view(kernel: &Kernel, pid: u64, of: AreaName, key: u64) -> Result<()> {
    let express = express(kernel)?;
    let asked = kernel.system_call(|system, ports| system.express_map(ports, of.host, of.number, key));
    let handle = asked.map_err(refused)?;
    let held = Held { pid, number: VIEWS | handle, host: of.host, of: Some((of, key)), shown: None };
    express.ends().held.insert(handle, held);
    Ok(())
}

/// Returns the driver's number of a view that a process has asked for.
fn asked_view(kernel: &Kernel, pid: u64, of: AreaName, key: u64) -> Option<u32> {
    let ends = express(kernel).ok()?.ends();
    let is_it = |held: &Held| held.pid == pid && held.of == Some((of, key)) && held.shown.is_none();
    ends.held.iter().find(|(_, held)| is_it(held)).map(|(handle, _)| *handle)
}

pub(super) fn view_is_decided(kernel: &Kernel, pid: u64, of: AreaName, key: u64) -> bool {
    let Some(handle) = asked_view(kernel, pid, of, key) else { return true };
    kernel.system_call(|system, _| system.express(handle)) != Ok(None)
}

/// Drops a view that its process no longer wants.
pub(super) fn forget_view(kernel: &Kernel, pid: u64, of: AreaName, key: u64) {
    if let Some(handle) = asked_view(kernel, pid, of, key) {
        close(kernel, handle);
    }
}

/// Maps a view that was asked for.
pub(super) fn map_view(kernel: &Kernel, pid: u64, of: AreaName, key: u64) -> Result<ExpressParts> {
    let express = express(kernel)?;
    let handle = asked_view(kernel, pid, of, key).ok_or(refused(Errno::NOENT))?;
    let end = match kernel.system_call(|system, _| system.express(handle)) {
        Ok(Some(end)) => end,
        Ok(None) => return Err(refused(Errno::AGAIN)),
        Err(errno) => {
            close(kernel, handle);
            return Err(refused(errno));
        }
    };
    let memory = express.matrix.view(of, express.own, &end.pages).map_err(wrong)?;
    let mut ends = express.ends();
    let held = ends.held.get_mut(&handle).ok_or(refused(Errno::NODEV))?;
    held.shown = Some((end.pages, memory.clone()));
    Ok(ExpressParts { number: held.number, key: 0, memory })
}

/// Frees an area or a view, by the library's number.
pub(super) fn give_back(kernel: &Kernel, pid: u64, number: u32) -> Result<()> {
    let is_it = |held: &Held| held.pid == pid && held.number == number;
    let found = express(kernel)?.ends().held.iter().find(|(_, held)| is_it(held)).map(|(handle, _)| *handle);
    close(kernel, found.ok_or(refused(Errno::NOENT))?);
    Ok(())
}

/// Frees all areas and views of a process that has died.
pub(super) fn close_all_of(kernel: &Kernel, pid: u64) {
    let Some(express) = kernel.express() else { return };
    let own: Vec<u32> = {
        let ends = express.ends();
        ends.held.iter().filter(|(_, held)| held.pid == pid).map(|(handle, _)| *handle).collect()
    };
    own.into_iter().for_each(|handle| close(kernel, handle));
}

fn close(kernel: &Kernel, handle: u32) {
    let Some(express) = kernel.express() else { return };
    // It is unmapped from its process before it is freed.
    if let Some(mut held) = express.ends().held.remove(&handle) {
        express.hide(&mut held);
    }
    let _ = kernel.system_call(|system, ports| {
        system.express_close(ports, handle);
        Ok(())
    });
}

/// Checks that no area or view remains, and that none has any pages.
pub(super) fn check_at_rest(kernel: &Kernel) -> Result<(), Violation> {
    let Some(express) = kernel.express() else { return Ok(()) };
    let ends = express.ends();
    if let Some(held) = ends.held.values().next() {
        return Err(Violation::new(format!("host {}: at the end {held:?} is still held", kernel.id)));
    }
    express.matrix.check_rest()
}
