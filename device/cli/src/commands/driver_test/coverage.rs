//! `hamlyn driver-test --counts`: how often each line of the module was executed.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Exit, Lab, Program, Remote, What};

/// Prints an archive of the kernel's counts. Their files tell the size 0, so tar takes copies.
const SCRIPT: &str = "mount -t debugfs none /sys/kernel/debug 2>/dev/null
    cd /sys/kernel/debug/gcov || exit 1
    rm -rf /tmp/gcov && mkdir /tmp/gcov || exit 1
    find . -name '*.gcda' | while read -r file; do
        mkdir -p /tmp/gcov/${file%/*} && cat $file >/tmp/gcov/$file || exit 1
    done || exit 1
    tar -C /tmp/gcov -c . && rm -rf /tmp/gcov";

/// Largest archive, in bytes.
const MOST: u64 = 64 << 20;

/// Largest archive that has no file, in bytes: a folder, and zeros that fill a record of tar.
const EMPTY: u64 = 10240;

/// Largest part of the machine's error messages that is kept, in bytes.
const SAID: usize = 4096;

/// Makes the file of the counts.
pub(super) fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Copies the counts of the lab's machine into a file. The lab's door must be open.
pub(super) fn write(lab: &Lab, mut file: File) -> anyhow::Result<()> {
    let argv = ["sh", "-c", SCRIPT].map(Into::into).to_vec();
    let program = Program { argv, uid: Some(0), ..Program::default() };
    let mut remote = Remote::start(lab.directory(), lab.vm(0).name(), program)?;
    let (mut length, mut said) = (0, Vec::new());
    loop {
        match remote.word()? {
            What::OutBytes(bytes) => {
                length += bytes.0.len() as u64;
                ensure!(length <= MOST, "the module's counts have more than {MOST} bytes");
                file.write_all(&bytes.0).context("cannot write the module's counts")?;
            }
            What::ErrBytes(bytes) => {
                said.extend_from_slice(&bytes.0[..bytes.0.len().min(SAID.saturating_sub(said.len()))]);
            }
            What::Exit(Exit::Code(0)) => break,
            What::Exit(_) => {
                bail!("the kernel counts no lines: {}", plain(&String::from_utf8_lossy(&said)));
            }
            _ => {}
        }
    }
    ensure!(length > EMPTY, "the module counts no lines: ./scripts/driver --coverage builds one that does");
    Ok(())
}
