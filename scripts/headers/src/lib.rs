//! Generates C headers from Rust sources: [`driver`] those of `guest-driver/include/`, which are
//! tracked, and [`library`] those of the C library, for `scripts/prepare` and `scripts/install`.

use std::path::PathBuf;

pub mod driver;
#[cfg(feature = "library")]
mod exported;
#[cfg(feature = "library")]
pub mod library;

/// The repository's folder.
#[must_use]
pub fn repository() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}
