//! The driver's refusals of buffers.

use std::io;

use rustix::io::Errno;

use super::mapping_error::MappingError;
use crate::error::Error;

/// Converts the driver's error for a mapping that failed.
pub(super) fn explain(node: u32, export: u32, end: u64, error: Error) -> Error {
    let Some(errno) = errno(&error) else { return error };
    match errno {
        Errno::ACCESS => MappingError::Access { node, export }.into(),
        Errno::RANGE => MappingError::Range { node, export, end }.into(),
        Errno::DOM => MappingError::Place { node, export }.into(),
        Errno::BUSY => MappingError::Occupied.into(),
        Errno::HOSTUNREACH => MappingError::NoHost { node }.into(),
        Errno::TIMEDOUT => MappingError::NoAnswer { node }.into(),
        Errno::OPNOTSUPP => Error::Unsupported(OTHER_ADDRESSES),
        Errno::NXIO => Error::Unsupported(BEYOND_TABLE),
        _ => error,
    }
}

/// Message if the driver cannot give the card an address of the memory.
pub(super) const OTHER_ADDRESSES: &str =
    "the card sees other addresses of memory than the processor, as behind an IOMMU: no page can be mapped";

/// Message for memory without an entry in the card's page table.
pub(super) const BEYOND_TABLE: &str = "the memory lies behind the card's page table: start the card with more `--pages`, one for each 4 KiB of the machine's addresses";

/// Message for memory that is exported already.
pub(super) const OCCUPIED: &str = "a page of the memory is exported already, in the same part or a third: two exports that share a page touch (section 3.2)";

/// Returns the errno of a driver error.
pub(super) fn errno(error: &Error) -> Option<Errno> {
    match error {
        Error::System { source, .. } => errno_of(source),
        _ => None,
    }
}

fn errno_of(source: &io::Error) -> Option<Errno> {
    source.raw_os_error().map(Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::error_kind::ErrorKind;

    #[test]
    fn each_refusal_has_its_text_and_kind() {
        let of = |errno: Errno| explain(3, 7, 8192, Error::system("map a buffer")(errno.into()));
        for (errno, kind, text) in [
            (Errno::ACCESS, ErrorKind::Refused, "host 3 refused access to export 7"),
            (Errno::RANGE, ErrorKind::Invalid, "bytes up to 8192 of export 7 of host 3"),
            (Errno::DOM, ErrorKind::Invalid, "another place in a page"),
            (Errno::BUSY, ErrorKind::Invalid, "more than two parts"),
            (Errno::HOSTUNREACH, ErrorKind::PeerLost, "host 3 is not there"),
            (Errno::TIMEDOUT, ErrorKind::TimedOut, "host 3 did not answer in time"),
            (Errno::OPNOTSUPP, ErrorKind::Unsupported, "IOMMU"),
            (Errno::NXIO, ErrorKind::Unsupported, "more `--pages`"),
            (Errno::INTR, ErrorKind::System, "cannot map a buffer"),
        ] {
            let error = of(errno);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
