//! `RLIMIT_MEMLOCK` is a limit per user: processes, address spaces and files cannot bypass it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use hamlyn_abi::uapi::HamlynSlotCreate;
use hamlyn_sys::{Device, Mapping};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::bench::{PAGE, object, pinned, slot};
use crate::checks::Checks;
use crate::common::{Outcome, print};

/// The limit used here, in pages.
const LIMIT: usize = 16;

pub(crate) fn memlock(checks: &mut Checks, path: &Path) -> Outcome {
    let (device, area) = (Device::open(path)?, Mapping::anonymous(LIMIT * PAGE)?);
    let limit = getrlimit(Resource::Memlock);
    setrlimit(Resource::Memlock, Rlimit { current: Some((LIMIT * PAGE) as u64), ..limit })?;
    let part = |pages: usize| HamlynSlotCreate { area_length: (pages * PAGE) as u64, ..slot(&area) };
    let mut most = part(LIMIT - 4);
    checks.done("12 pages of 16", device.slot_create(&mut most, &area, None))?;
    // A child has another address space, and the parent's file.
    checks.note("a child pins 5 more by the parent's file", child(&device, 5)? == refused(), "it may")?;
    let other = Device::open(path)?;
    checks.note("or by a file of its own", child(&other, 5)? == refused(), "it may")?;
    checks.holds("a child pins the 4 that are left", child(&device, 4)? == json!({ "pinned": true }))?;
    // The child has exited, and the pages it pinned are charged to the file.
    let refused = device.slot_create(&mut part(1), &area, None);
    checks.refused("one more than it left", refused, Errno::NOMEM)?;
    checks.holds("this process has pinned 12 itself", pinned()? == (LIMIT - 4) * PAGE)?;
    device.slot_destroy(&mut object(most.slot))?;
    checks.done("12 when they were given back", device.slot_create(&mut part(LIMIT - 4), &area, None))?;
    checks.refused("and not 1 more", device.slot_create(&mut part(1), &area, None), Errno::NOMEM)?;
    drop(device);
    checks.done("all 16 once the file is closed", other.slot_create(&mut part(LIMIT), &area, None))?;
    Ok(setrlimit(Resource::Memlock, limit)?)
}

fn refused() -> Value {
    json!({ "error": io::Error::from(Errno::NOMEM).to_string() })
}

/// Starts another process that pins its own memory through an open file. Returns its output.
fn child(device: &Device, pages: usize) -> Outcome<Value> {
    let file: OwnedFd = device.as_fd().try_clone_to_owned()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["pin", "--pages", &pages.to_string()]).stdin(Stdio::from(file)).stderr(Stdio::null());
    Ok(serde_json::from_slice(&command.output()?.stdout)?)
}

/// The child process: its standard input is the device.
pub(crate) fn pin(pages: usize) -> Outcome {
    let device = Device::of_file(io::stdin().as_fd().try_clone_to_owned()?, "hamlyn")?;
    let area = Mapping::anonymous(pages * PAGE)?;
    device.slot_create(&mut slot(&area), &area, None)?;
    print(&json!({ "pinned": true }))
}
