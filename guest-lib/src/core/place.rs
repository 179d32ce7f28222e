//! Pages and offsets.

use crate::error::{Error, Result};

/// Size of a page, in bytes.
pub(crate) const PAGE: usize = 4096;

/// Fails with [`Error::Misaligned`] if no word of this type can start at the offset.
pub(crate) fn aligned<W>(object: &'static str, offset: usize) -> Result<()> {
    multiple(object, offset, size_of::<W>())
}

/// Fails with [`Error::Misaligned`] if the value is not a multiple of `of`.
pub(crate) fn multiple(object: &'static str, value: usize, of: usize) -> Result<()> {
    if value % of != 0 {
        return Err(Error::Misaligned { object, value: value as u64, multiple: of as u64 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misaligned_offset_is_refused() {
        aligned::<u64>("offset", 16).unwrap();
        let refused = aligned::<u64>("offset", 12).unwrap_err();
        assert_eq!(refused.to_string(), "offset 12 is not a multiple of 8");
        aligned::<u8>("offset", 13).unwrap();
    }
}
