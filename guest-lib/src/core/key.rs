//! Protection keys (sections 2.2 and 2.7).

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::{Error, Result};

/// Returns a 64-bit protection key from the kernel's random source, so that it cannot be guessed.
///
/// Slots get their keys from the driver; this one is for metadata entries
/// ([`crate::MetadataEntry::protect`]).
///
/// # Errors
/// [`Error::System`] if the kernel provides none.
pub fn random_key() -> Result<u64> {
    let mut key = [0; 8];
    match getrandom(&mut key, GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_le_bytes(key)),
        Ok(_) => Err(Error::system("make a key")(io::ErrorKind::UnexpectedEof.into())),
        Err(error) => Err(Error::system("make a key")(error.into())),
    }
}
