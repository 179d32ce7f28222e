//! `hamlyn-agent [PORT]`: serves the host over a virtio-serial port until the guest powers off.

use std::env;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context;
use hamlyn_agent::{port, protocol, serve};

fn main() -> anyhow::Result<()> {
    let path = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from("/dev/virtio-ports").join(protocol::PORT),
    };
    let (input, output) = port::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    serve::serve(BufReader::new(input), output, name.trim()).context("cannot read the port")
}
