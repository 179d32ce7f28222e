//! The C headers, made from Rust sources: [`driver`] makes those of `guest-driver/include/`, which
//! are tracked, and [`library`] those of the C library, which `scripts/prepare` and `scripts/install`
//! make.

use std::path::PathBuf;

pub mod driver;
pub mod library;

/// The repository's folder.
#[must_use]
pub fn repository() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "..", ".."].iter().collect()
}
