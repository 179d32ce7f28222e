//! Cloud Hypervisor's command line, and its interface for a machine that runs.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use super::machine::Machine;

/// Word for the kernel's command line: the agent serves a vsock device.
const WORD: &str = "hamlyn.vsock";

/// Address of a machine in its own vsock network, where only the host is beside it: 0 to 2 are
/// reserved.
const CID: u32 = 3;

/// It answers at once, unless an access to a card blocks it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the whole command line of a machine, without the program.
pub(super) fn arguments(machine: &Machine) -> Vec<String> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let options = [
        ("--api-socket", path(&machine.monitor)),
        ("--cpus", format!("boot={}", machine.processors)),
        // Without `shared` the card's DMA would have no effect.
        ("--memory", format!("size={},shared=on", machine.memory)),
        ("--kernel", path(&machine.kernel)),
        ("--initramfs", path(&machine.initrd)),
        ("--cmdline", format!("{} {WORD}", machine.command_line())),
        // Its standard output, of which the lab keeps the end.
        ("--serial", "tty".to_owned()),
        ("--console", "off".to_owned()),
        ("--vsock", format!("cid={CID},socket={}", path(&machine.agent))),
        ("--user-device", format!("socket={}", path(&machine.card))),
    ];
    let disk = machine.disk.as_ref().map(|disk| ("--disk", format!("path={},readonly=on", path(disk))));
    options.into_iter().chain(disk).flat_map(|(option, value)| [option.to_owned(), value]).collect()
}

/// Makes a machine do something: `reboot`, `pause` or `resume`.
pub(super) fn order(socket: &Path, action: &str) -> anyhow::Result<()> {
    let answer =
        ask(socket, action).with_context(|| format!("cannot {action} it by {}", socket.display()))?;
    // HTTP/1.1 204 No Content
    match answer.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => bail!("Cloud Hypervisor refused to {action} it: {:?}", answer.trim_end()),
    }
}

/// Sends a request without a body, and returns the first line of the answer.
fn ask(socket: &Path, action: &str) -> std::io::Result<String> {
    const LONGEST: u64 = 256;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = format!("PUT /api/v1/vm.{action} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut line = Vec::new();
    BufReader::new(std::io::Read::take(stream, LONGEST)).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::super::machine::tests::machine;
    use super::super::vmm::Vmm;
    use super::*;

    #[test]
    fn card_gets_shared_memory() {
        let mut machine = machine();
        machine.vmm = Vmm::CloudHypervisor;
        let arguments = arguments(&machine);
        let behind = |option: &str| {
            let at = arguments.iter().position(|word| word == option).unwrap();
            arguments[at + 1].clone()
        };
        assert_eq!(behind("--memory"), "size=256M,shared=on");
        assert_eq!(behind("--user-device"), "socket=/run/card0.sock");
        assert_eq!(behind("--vsock"), "cid=3,socket=/run/vm0.agent");
        assert!(behind("--cmdline").ends_with(" hamlyn.vsock"), "{arguments:?}");
        // Cloud Hypervisor boots a machine again whatever it is asked.
        assert!(behind("--cmdline").contains(" panic=-1 "), "{arguments:?}");
    }

    #[test]
    fn refusal_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("api");
        let listener = UnixListener::bind(&socket).unwrap();
        let answers = ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 500 Internal Server Error\r\n\r\n", ""];
        let server = thread::spawn(move || {
            answers.map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = String::new();
                BufReader::new(&stream).read_line(&mut request).unwrap();
                stream.write_all(answer.as_bytes()).unwrap();
                request
            })
        });
        order(&socket, "pause").unwrap();
        let error = order(&socket, "resume").unwrap_err().to_string();
        assert!(error.contains("refused to resume it") && error.contains("500"), "{error}");
        assert!(order(&socket, "reboot").unwrap_err().to_string().contains("refused to reboot it: \"\""));
        let requests = server.join().unwrap();
        assert_eq!(requests[0], "PUT /api/v1/vm.pause HTTP/1.1\r\n");
    }
}
