//! A snapshot of memory, kept by another process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::pipe::pipe;

use super::Mapping;

/// A child process with a snapshot of this process' memory: the kernel copies a page when either
/// process changes it. Dropping this ends the child.
#[derive(Debug)]
pub struct KeptCopy {
    child: libc::pid_t,
    go: Option<File>,
    bytes: File,
}

impl Mapping {
    /// Creates a child process that keeps the current bytes.
    ///
    /// # Errors
    /// Those of `pipe(2)` and `fork(2)`.
    pub fn keep_copy(&self) -> io::Result<KeptCopy> {
        let (wait, go) = pipe()?;
        let (bytes, out) = pipe()?;
        // SAFETY: the child only calls read(2), write(2) and _exit(2), which are allowed after a
        // fork of any process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(go);
                self.tell(&wait, &out)
            }
            child => Ok(KeptCopy { child, go: Some(go.into()), bytes: bytes.into() }),
        }
    }

    /// The child's part: waits for a byte, then writes the whole mapping.
    fn tell(&self, wait: &OwnedFd, out: &OwnedFd) -> ! {
        let mut told = 0;
        let asked = rustix::io::read(wait, std::slice::from_mut(&mut told)).is_ok_and(|read| read == 1);
        let mut at = 0;
        while asked && at < self.length {
            let mut some = [0; 4096];
            let some = &mut some[..(self.length - at).min(4096)];
            self.read(at, some);
            match rustix::io::write(out, some) {
                Ok(written) if written > 0 => at += written,
                _ => break,
            }
        }
        // SAFETY: ends the child without running any code of the parent.
        unsafe { libc::_exit(0) }
    }
}

impl KeptCopy {
    /// Returns the bytes of the snapshot.
    ///
    /// # Errors
    /// Those of `write(2)` and `read(2)`.
    pub fn take(mut self, length: usize) -> io::Result<Vec<u8>> {
        if let Some(mut go) = self.go.take() {
            go.write_all(&[1])?;
        }
        let mut bytes = vec![0; length];
        self.bytes.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

impl Drop for KeptCopy {
    fn drop(&mut self) {
        // The child may still wait for a byte.
        drop(self.go.take());
        // SAFETY: a child of this process that no other code waits for.
        unsafe {
            libc::kill(self.child, libc::SIGKILL);
            libc::waitpid(self.child, std::ptr::null_mut(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_as_the_memory_was() {
        let mapping = Mapping::anonymous(3 * 4096).unwrap();
        mapping.write(4000, &[7; 200]);
        let copy = mapping.keep_copy().unwrap();
        mapping.write(4000, &[8; 200]);
        let bytes = copy.take(3 * 4096).unwrap();
        assert_eq!((&bytes[3999..4002], bytes[4200]), (&[0, 7, 7][..], 0));
        drop(mapping.keep_copy().unwrap());
    }
}
