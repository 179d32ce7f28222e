//! The guest's end of the virtio-serial port.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Delay between reads while no host is connected. The kernel then ends every read at once with 0
/// bytes, and `poll` also returns at once.
const HOST_AWAY: Duration = Duration::from_millis(50);

/// The reading side of a port. It never ends, because hosts connect and disconnect.
#[derive(Debug)]
pub struct Port(File);

/// Opens the port for reading and for writing. A write blocks until a host is connected.
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
