//! The guest's end of the virtio-serial port.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// While no host is connected, the kernel ends every read at once with 0 bytes, and `poll` returns
/// at once too.
const HOST_AWAY: Duration = Duration::from_millis(50);

/// The reading side of a port. Hosts come and go: it never ends.
#[derive(Debug)]
pub struct Port(File);

/// Opens the port for reading and for writing. A write waits until a host is connected.
pub fn open(path: &Path) -> io::Result<(Port, File)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    Ok((Port(file.try_clone()?), file))
}

impl Read for Port {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer)? {
                0 if !buffer.is_empty() => sleep(HOST_AWAY),
                count => return Ok(count),
            }
        }
    }
}
