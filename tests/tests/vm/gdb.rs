//! `hamlyn gdb`, with a debugger of our own.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::hamlyn;
use hamlyn_tests::eventually::PATIENCE;

use crate::{eventually, lab};

/// Tells its arguments, and stays until it may go.
const GDB: &str = "#!/bin/sh
cd \"$(dirname \"$0\")\" && printf '%s\\n' \"$@\" >partial && mv partial told
while [ ! -e leave ]; do sleep 0.1; done
exit 7";

/// Sends a command of gdb's remote protocol, and returns the answer.
fn ask(stream: &mut UnixStream, command: &str) -> Result<String> {
    let sum: u8 = command.bytes().fold(0, u8::wrapping_add);
    write!(stream, "+${command}#{sum:02x}")?;
    let mut answer = Vec::new();
    while answer.iter().rev().nth(2) != Some(&b'#') {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        answer.push(byte[0]);
    }
    Ok(String::from_utf8(answer)?)
}

#[test]
fn debugger_stops_the_machine_and_has_its_symbols() -> Result<()> {
    let mut lab = lab(1);
    lab.open_door()?;
    let folder = tempfile::tempdir()?;
    let [gdb, told, leave] = ["gdb", "told", "leave"].map(|name| folder.path().join(name));
    fs::write(&gdb, GDB)?;
    fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755))?;
    let mut command = Command::new(hamlyn()?);
    let mut running = command
        .args(["gdb", "vm0", "--gdb"])
        .arg(&gdb)
        .args(["--", "-batch"])
        .env("HAMLYN_RUN", lab.directory())
        .spawn()?;
    eventually(|| Ok(told.exists()), "gdb has started")?;
    let words = fs::read_to_string(&told)?;
    let words: Vec<&str> = words.lines().collect();
    let [ex, symbols, also, target, last] = words[..] else { anyhow::bail!("{words:?}") };
    ensure!((ex, also, last) == ("-ex", "-ex", "-batch"), "{words:?}");
    let text = lab.vm(0).run_as(0, ["cat", "/sys/module/hamlyn/sections/.text"])?.finish_text()?.concat();
    ensure!(
        symbols.starts_with("add-symbol-file ") && symbols.contains(&format!(".ko {text} -s ")),
        "{symbols}"
    );

    let socket = target.strip_prefix("target remote ").context("no target")?;
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let stopped = ask(&mut stream, "?")?;
    ensure!(stopped.contains("$T") || stopped.contains("$S"), "{stopped}");
    // It leaves without a word, as when it is killed.
    drop(stream);
    fs::write(&leave, "")?;
    ensure!(running.wait()?.code() == Some(7));
    ensure!(!std::path::Path::new(socket).exists());
    lab.vm(0).run_as(0, ["self-test"])?.finish_text()?;
    Ok(())
}
