//! QEMU's machine monitor, for the few things that only QEMU can do.

use std::io::{BufReader, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use hamlyn_agent::lines::next_line;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};

/// QEMU answers at once, unless an access to a card blocks it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Resets the machine like its reset button. A machine that was started with `-no-reboot` ends on
/// every other reset.
pub(super) fn reset(socket: &Path) -> anyhow::Result<()> {
    execute(socket, &[("set-action", json!({ "reboot": "reset" })), ("system_reset", json!({}))])
}

/// Makes the machine end at the next reset again, so that a guest that panics ends and does not
/// reboot forever.
pub(super) fn end_on_reboot(socket: &Path) -> anyhow::Result<()> {
    execute(socket, &[("set-action", json!({ "reboot": "shutdown" }))])
}

/// Stops the machine's processors, or lets them continue.
pub(super) fn pause(socket: &Path, paused: bool) -> anyhow::Result<()> {
    execute(socket, &[(if paused { "stop" } else { "cont" }, json!({}))])
}

/// Wakes a machine that has suspended itself to memory, like its power button. Fails if it is not
/// suspended.
pub(super) fn wake_up(socket: &Path) -> anyhow::Result<()> {
    execute(socket, &[("system_wakeup", json!({}))])
}

/// Hot-plugs a device.
pub(super) fn plug_in(socket: &Path, device: &Value) -> anyhow::Result<()> {
    execute(socket, &[("device_add", device.clone())])
}

/// Makes a PCI Express port, given by name, report an error, given by QEMU's name.
pub(super) fn report_error(socket: &Path, port: &str, error: &str) -> anyhow::Result<()> {
    let command = json!({ "command-line": format!("pcie_aer_inject_error {port} {error}") });
    execute(socket, &[("human-monitor-command", command)])
}

/// Lets gdb connect to a machine, at a socket. Or, without one, no longer.
pub(super) fn serve_debugger(socket: &Path, debugger: Option<&Path>) -> anyhow::Result<()> {
    let place = debugger.map_or("none".into(), |path| format!("unix:{},server=on,wait=off", path.display()));
    let command = json!({ "command-line": format!("gdbserver {place}") });
    execute(socket, &[("human-monitor-command", command)])
}

/// The longest answer or event, in bytes.
const LONGEST: usize = 1 << 20;

fn execute(socket: &Path, commands: &[(&str, Value)]) -> anyhow::Result<()> {
    let mut monitor = Monitor::connect(socket)?;
    commands.iter().try_for_each(|(command, arguments)| monitor.ask(command, arguments).map(drop))
}

/// A connection to a machine's monitor. QEMU serves one at a time: others wait.
#[derive(Debug)]
pub(super) struct Monitor {
    stream: UnixStream,
    replies: BufReader<UnixStream>,
    /// Why the last dump of memory has failed, as an event says.
    pub(super) dump_error: Option<String>,
}

impl Monitor {
    pub(super) fn connect(socket: &Path) -> anyhow::Result<Monitor> {
        let stream = UnixStream::connect(socket)
            .context("cannot connect to QEMU's monitor (a machine of Cloud Hypervisor has none)")?;
        stream.set_read_timeout(Some(PATIENCE)).context("cannot set a time-out")?;
        let replies = BufReader::new(stream.try_clone().context("cannot share the monitor's stream")?);
        let mut monitor = Monitor { stream, replies, dump_error: None };
        monitor.ask("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command, and returns its result.
    pub(super) fn ask(&mut self, command: &str, arguments: &Value) -> anyhow::Result<Value> {
        let line = json!({ "execute": command, "arguments": arguments });
        writeln!(self.stream, "{line}").context("cannot write to QEMU's monitor")?;
        self.reply().with_context(|| format!("QEMU's monitor refused {command}"))
    }

    /// Gives QEMU a file that is open here, under a name.
    pub(super) fn pass(&mut self, file: BorrowedFd<'_>, name: &str) -> anyhow::Result<()> {
        let line = format!("{}\n", json!({ "execute": "getfd", "arguments": { "fdname": name } }));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [file];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let bytes = [IoSlice::new(line.as_bytes())];
        let sent = sendmsg(&self.stream, &bytes, &mut ancillary, SendFlags::NOSIGNAL)
            .context("cannot pass a file to QEMU's monitor")?;
        ensure!(sent == line.len(), "QEMU's monitor has taken {sent} of {} bytes", line.len());
        self.reply().context("QEMU's monitor refused a file")?;
        Ok(())
    }

    /// Reads up to the next reply, skipping the greeting and events.
    fn reply(&mut self) -> anyhow::Result<Value> {
        loop {
            let Some(line) = next_line(&mut self.replies, LONGEST).context("no answer")? else {
                bail!("QEMU is gone")
            };
            let Ok(line) = line else { bail!("the answer is too long (limit {LONGEST} bytes)") };
            let mut reply: Value = serde_json::from_slice(&line).context("the answer is not JSON")?;
            if let Some(error) = reply.get("error") {
                bail!("{error}");
            }
            if let Some(answer) = reply.get_mut("return") {
                return Ok(answer.take());
            }
            if reply["event"] == "DUMP_COMPLETED" {
                self.dump_error = reply.pointer("/data/error").and_then(Value::as_str).map(str::to_owned);
            }
        }
    }
}
