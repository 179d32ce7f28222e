//! QEMU's machine monitor, for the few things that only QEMU can do.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use hamlyn_agent::lines::next_line;
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
    let mut stream = UnixStream::connect(socket).context("cannot connect to QEMU's monitor")?;
    stream.set_read_timeout(Some(PATIENCE)).context("cannot set a time-out")?;
    let mut replies = BufReader::new(stream.try_clone().context("cannot share the monitor's stream")?);
    let first = [("qmp_capabilities", json!({}))];
    for (command, arguments) in first.iter().chain(commands) {
        writeln!(stream, "{}", json!({ "execute": command, "arguments": arguments }))
            .context("cannot write to QEMU's monitor")?;
        reply(&mut replies).with_context(|| format!("QEMU's monitor refused {command}"))?;
    }
    Ok(())
}

/// Reads up to the next reply, skipping the greeting and events.
fn reply(replies: &mut impl BufRead) -> anyhow::Result<()> {
    loop {
        let Some(line) = next_line(replies, LONGEST).context("no answer")? else { bail!("QEMU is gone") };
        let Ok(line) = line else { bail!("the answer is too long (limit {LONGEST} bytes)") };
        let reply: Value = serde_json::from_slice(&line).context("the answer is not JSON")?;
        if let Some(error) = reply.get("error") {
            bail!("{error}");
        }
        if reply.get("return").is_some() {
            return Ok(());
        }
    }
}
