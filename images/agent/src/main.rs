//! `hamlyn-agent [PORT|vsock]`: serves the host until the guest powers off, over a virtio-serial
//! port or a vsock device.

use std::env;
use std::fs;
use std::io::BufReader;
use std::path::PathBuf;

use anyhow::Context;
use hamlyn_agent::{port, protocol, serve, vsock};

fn main() -> anyhow::Result<()> {
    let path = match env::args_os().nth(1) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from("/dev/virtio-ports").join(protocol::PORT),
    };
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if path.as_os_str() == "vsock" {
        return vsock::serve_all(name.trim()).context("cannot serve over vsock");
    }
    let (input, output) = port::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    serve::serve(BufReader::new(input), output, name.trim()).context("cannot read the port")
}
