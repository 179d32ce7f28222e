//! Checks docs/your-program.md: programs built as the page shows run in machines that `hamlyn up`
//! started.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use hamlyn_headers::library;
use hamlyn_lab::{Kit, hamlyn};
use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/your-program.md")).unwrap()
}

/// Returns the page's code block that begins with `start`, without the fence.
fn block(page: &str, language: &str, start: &str) -> String {
    let fence = format!("```{language}\n{start}");
    let at = page.find(&fence).unwrap_or_else(|| panic!("the page has no block {fence:?}"));
    let block = &page[at + language.len() + 4..];
    block[..block.find("```").unwrap()].to_owned()
}

/// Runs a block of shell commands in a folder.
fn shell(folder: &Path, commands: &str, variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new("sh");
    command.arg("-ec").arg(commands).current_dir(folder).envs(variables.iter().copied());
    let output = command.env_remove("CARGO_TARGET_DIR").output()?;
    ensure!(output.status.success(), "{commands}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Builds the page's first program, in Rust.
fn build_rust(folder: &Path) -> Result<PathBuf> {
    let manifest = block(&page(), "toml", "[package]");
    let manifest = manifest.replace("/path/to/this/repository", repository().to_str().context("no text")?);
    // Makes the folder a workspace of its own, like a user's folder outside any workspace.
    fs::write(folder.join("Cargo.toml"), manifest + "\n[workspace]\n")?;
    // Uses the versions that are already downloaded.
    fs::copy(repository().join("Cargo.lock"), folder.join("Cargo.lock"))?;
    fs::create_dir(folder.join("src"))?;
    fs::copy(repository().join("guest-lib/examples/hello.rs"), folder.join("src/main.rs"))?;
    shell(folder, &block(&page(), "sh", "RUSTFLAGS="), &[("CARGO_NET_OFFLINE", "true")])?;
    Ok(folder.join("target/x86_64-unknown-linux-gnu/release/hello"))
}

/// Builds the same in C, with the words that `pkg-config --static --cflags --libs hamlyn` prints.
fn build_c(folder: &Path) -> Result<PathBuf> {
    let source = repository().join("guest-lib/c");
    fs::copy(source.join("examples/c-hello.c"), folder.join("c-hello.c"))?;
    // The headers' folder, and the library's name, after scripts/install.
    let include = folder.join("include");
    library::write(&include).map_err(anyhow::Error::msg)?;
    let archive = Kit::find()?.program("libhamlyn_c.a")?;
    fs::copy(archive, folder.join("libhamlyn.a"))?;
    let description = fs::read_to_string(source.join("hamlyn.pc"))?;
    let field = |name: &str| {
        let line = description.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default()
            .replace("${includedir}", include.to_str().unwrap_or_default())
            .replace("${libdir}", ".")
    };
    let words = [field("Cflags:"), field("Libs:"), field("Libs.private:")].concat();
    let command = block(&page(), "sh", "cc ");
    let asked = "$(pkg-config --static --cflags --libs hamlyn)";
    ensure!(command.contains(asked), "{command}");
    shell(folder, &command.replace(asked, &words), &[])?;
    Ok(folder.join("c-hello"))
}

/// A running `hamlyn up`, with its output and its turn.
struct Up {
    run: tempfile::TempDir,
    up: Child,
    lines: Lines<BufReader<UnixStream>>,
    _turn: crate::Right,
}

impl Up {
    fn start(arguments: &[&str]) -> Result<Up> {
        let turn = crate::turn(2);
        let run = tempfile::tempdir()?;
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o700))?;
        let mut command = Command::new(hamlyn()?);
        command.arg("up").args(arguments).env("HAMLYN_RUN", run.path());
        let (output, input) = UnixStream::pair()?;
        let input = OwnedFd::from(input);
        let up = command.stdout(input.try_clone()?).stderr(input).spawn()?;
        // Only the child may hold the other end, so that its exit closes the stream.
        drop(command);
        let mut up = Up { run, up, lines: BufReader::new(output).lines(), _turn: turn };
        up.says("Ctrl-C here ends")?;
        Ok(up)
    }

    /// Waits for a line that contains these words.
    fn says(&mut self, words: &str) -> Result<()> {
        let found = self.lines.any(|line| line.is_ok_and(|line| line.contains(words)));
        ensure!(found, "it ended before it said {words:?}");
        Ok(())
    }

    /// Returns the process of a card, or of the switch, that serves a socket.
    fn process(&self, kind: &str, socket: &str) -> Result<Pid> {
        let mut children = String::new();
        for thread in fs::read_dir(format!("/proc/{}/task", self.up.id()))? {
            children += &fs::read_to_string(thread?.path().join("children"))?;
        }
        for child in children.split_whitespace() {
            let words = fs::read_to_string(format!("/proc/{child}/cmdline"))?;
            let mut words = words.split('\0');
            if words.nth(1) == Some(kind) && words.any(|word| word.ends_with(socket)) {
                return Pid::from_raw(child.parse()?).context("no process");
            }
        }
        bail!("no process serves {socket}");
    }

    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(hamlyn()?);
        command.args(words).env("HAMLYN_RUN", self.run.path()).stdin(Stdio::null());
        Ok(command)
    }

    fn output(&self, words: &[&str]) -> Result<Output> {
        let output = self.command(words)?.output()?;
        ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(output)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.up), Signal::TERM);
        let _ = self.up.wait();
    }
}

#[test]
fn own_programs_are_built_copied_and_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (rust, c) = (build_rust(folder.path())?, build_c(folder.path())?);
    let up = Up::start(&["--add", rust.to_str().context("no text")?])?;
    up.output(&["cp", c.to_str().context("no text")?, "vm1:"])?;
    let mut receiving = up.command(&["exec", "vm0", "--", "hello"])?.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(receiving.stdout.take().context("no output")?).lines();
    let seed = lines.next().context("no seed")??;
    up.output(&["exec", "vm1", "--", "./c-hello", &seed])?;
    assert_eq!(lines.next().context("no greeting")??, "hello over there");
    assert!(receiving.wait()?.success());
    // An ordinary user needs nothing more.
    let mut receiving =
        up.command(&["exec", "--uid", "1001", "vm0", "--", "hello"])?.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(receiving.stdout.take().context("no output")?).lines();
    assert!(lines.next().context("no seed")??.starts_with("hamlynseed1:"));
    kill_process(Pid::from_child(&receiving), Signal::INT)?;
    assert_eq!(receiving.wait()?.code(), Some(130), "Ctrl-C ends it");
    Ok(())
}

#[test]
fn machines_have_tcp_and_extra_qemu_devices() -> Result<()> {
    let up = Up::start(&["--net", "--isolate", "--qemu-arg=-device", "--qemu-arg=virtio-rng-pci"])?;
    up.output(&["exec", "vm1", "--", "ping", "-c", "1", "-W", "60", "vm0"])?;
    let mut server = up.command(&["exec", "vm0", "--", "nc", "-l", "-p", "7000"])?;
    let mut server = server.stdout(Stdio::piped()).spawn()?;
    let send = "for try in $(seq 3000); do echo well | nc vm0 7000 && exit; sleep 0.2; done; exit 1";
    up.output(&["exec", "vm1", "--", "sh", "-c", send])?;
    let said = BufReader::new(server.stdout.take().context("no output")?).lines().next();
    assert_eq!(said.context("nothing came")??, "well");
    server.wait()?;
    let devices = up.output(&["exec", "vm0", "--", "sh", "-c", "cat /sys/bus/virtio/devices/*/device"])?;
    // Virtio device 4 is an entropy device, 1 a network device.
    let devices = String::from_utf8(devices.stdout)?;
    for number in ["0x0001", "0x0004"] {
        assert!(devices.lines().any(|line| line == number), "{devices}");
    }
    Ok(())
}

#[test]
fn dead_card_stops_only_its_own_machine() -> Result<()> {
    let mut up = Up::start(&["--isolate"])?;
    kill_process(up.process("card", "card1.sock")?, Signal::KILL)?;
    up.says("vm1 has failed, the other machines go on")?;
    up.output(&["exec", "vm0", "--", "hamlyn-info"])?;
    kill_process(Pid::from_child(&up.up), Signal::INT)?;
    assert_eq!(up.up.wait()?.code(), Some(1), "a machine failed");
    Ok(())
}

#[test]
fn dead_switch_is_restarted() -> Result<()> {
    let mut up = Up::start(&["--isolate"])?;
    let switch = up.process("switch", "switch.sock")?;
    kill_process(switch, Signal::KILL)?;
    up.says("the switch has failed and is restarted")?;
    eventually(
        || Ok(up.process("switch", "switch.sock").is_ok_and(|other| other != switch)),
        "there is another switch",
    )?;
    let mut server = up.command(&["exec", "vm1", "--", "hamlyn-ping"])?.stdout(Stdio::null()).spawn()?;
    eventually(
        || Ok(up.output(&["exec", "vm0", "--", "hamlyn-ping", "1", "-c", "1"]).is_ok()),
        "a message goes by way of it",
    )?;
    kill_process(Pid::from_child(&up.up), Signal::INT)?;
    assert_eq!(up.up.wait()?.code(), Some(0), "no machine failed");
    server.wait()?;
    Ok(())
}

#[test]
fn the_page_names_flags_that_exist() -> Result<()> {
    for command in ["up", "exec", "cp"] {
        let help = Command::new(hamlyn()?).args([command, "--help"]).output()?;
        let help = String::from_utf8(help.stdout)?;
        let page = page();
        let name = format!("hamlyn {command} --");
        let uses = page.match_indices(&name).map(|(at, _)| &page[at..]);
        for flag in uses.flat_map(|line| line.lines().next().unwrap_or_default().split([' ', '`', '='])) {
            let flag = flag.trim_end_matches([',', '.', ':']);
            if flag.starts_with("--") && flag.len() > 2 {
                assert!(help.contains(flag), "hamlyn {command} has no {flag}");
            }
        }
    }
    Ok(())
}
