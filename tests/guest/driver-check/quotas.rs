//! Shares: how much of a card one user gets when others want it, too.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hamlyn_abi::uapi::*;
use hamlyn_sys::{ConnectionFile, Device, ListenerFile, Mapping};
use rustix::io::Errno;
use serde_json::{Value, json};
use zerocopy::FromZeros;

use crate::bench::{PAGE, slot};
use crate::checks::Checks;
use crate::common::{self, Outcome, print};
use crate::connections::{connect_to, host, listen_to, until};

/// More than any card has.
const MANY: u32 = 1 << 20;

/// Creates objects until one fails. Returns them, and the reason of the failure.
fn all_of<T>(create: impl Fn(u32) -> io::Result<T>) -> (Vec<T>, Value) {
    let mut made = Vec::new();
    for number in 0..MANY {
        match create(number) {
            Ok(one) => made.push(one),
            Err(error) => {
                let ends = [(Errno::DQUOT, "share"), (Errno::NOSPC, "card")];
                let end = ends.iter().find(|end| error.raw_os_error() == Some(end.0.raw_os_error()));
                let end = end.map_or_else(|| error.to_string(), |end| end.1.to_owned());
                let count = made.len();
                return (made, json!({ "made": count, "limit": end }));
            }
        }
    }
    (made, Value::Null)
}

pub(crate) fn greedy(path: &Path) -> Outcome {
    let area = Mapping::anonymous(PAGE)?;
    // Using several files does not bypass the limits.
    let devices = [Device::open(path)?, Device::open(path)?];
    let device = |number: u32| &devices[number as usize % 2];
    let small = HamlynQueueCreate { entries: 2, ..Default::default() };
    let (_, termini) = all_of(|n| device(n).terminus_create(&mut HamlynTerminusCreate::default()));
    let (_, queues) = all_of(|n| device(n).queue_create(&mut small.clone()));
    let (_, slots) = all_of(|n| device(n).slot_create(&mut slot(&area), &area, None));
    let pid = std::process::id();
    let (_names, names) = all_of(|n| device(n).listen(&mut listen_to(format!("{pid} {n}").as_bytes())));
    let mut share = UlnShareQuery::default();
    devices[1].share(&mut share)?;
    print(&json!({
        "termini": termini, "queues": queues, "slots": slots, "connections": names,
        "held": share.held, "limits": share.limit,
    }))?;
    common::read_line().map(drop)
}

/// Needs a share of less than 200 connections.
pub(crate) fn ended(checks: &mut Checks, path: &Path) -> Outcome {
    let device = Device::open(path)?;
    let held = || -> Outcome<[u32; 4]> {
        let mut share = UlnShareQuery::default();
        device.share(&mut share)?;
        Ok(share.held)
    };
    let (listener, host) = (device.listen(&mut listen_to(b"ended"))?, host(&device)?);
    let kept = (0..200).map_while(|_| pair(&device, &listener, host).ok()).collect::<Vec<_>>();
    checks.note("200 connections that ended", kept.len() == 200, &format!("{}", kept.len()))?;
    // The last closes may still be in transit.
    let settled = (0..6000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        held().is_ok_and(|held| held[3] == 1)
    });
    checks.holds("only the name counts, though all files are open", settled)?;
    let (_, names) = all_of(|n| device.listen(&mut listen_to(format!("ended {n}").as_bytes())));
    checks.note("names, up to the share", names["limit"] == "share", &names.to_string())?;
    checks.holds("and none is left of them", held()?[3] == 1)?;
    drop(kept);
    Ok(())
}

/// Root opens the file and passes it to another user.
pub(crate) fn passed(checks: &mut Checks, path: &Path) -> Outcome {
    let device = Device::open(path)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["pin", "--pages", "1"]).stdin(Stdio::from(device.as_fd().try_clone_to_owned()?));
    let done = command.uid(1002).stdout(Stdio::null()).status()?.success();
    checks.holds("another user's slot by this file", done)?;
    let mut share = UlnShareQuery::default();
    device.share(&mut share)?;
    checks.holds("it is its opener's", share.user == 0 && share.held == [0, 1, 0, 0])?;
    let status = std::fs::read_to_string("/sys/class/hamlyn/hamlyn0/holders")?;
    checks.holds("and no other user's", !status.lines().any(|line| line.starts_with("1002 ")))
}

/// Connects to its own listener and ends the connection; both files stay open.
fn pair(device: &Device, listener: &ListenerFile, host: u32) -> Outcome<[ConnectionFile; 2]> {
    let asking = device.connect(&mut connect_to(host, b"ended"))?;
    let asked = loop {
        match listener.next_request() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
            other => break other?,
        }
    };
    asked.accept(&mut UlnPrivate::new_zeroed())?;
    until(&asking, ULN_CONNECTION_ESTABLISHED)?;
    asking.close(&mut UlnPrivate::new_zeroed())?;
    until(&asked, ULN_CONNECTION_ENDED)?;
    Ok([asking, asked])
}
