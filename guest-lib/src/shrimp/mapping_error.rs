//! Reasons why a buffer is not mapped.

use std::io;

use rustix::io::Errno;

use crate::error::{Error, ErrorKind};

/// Reasons why a send buffer is not mapped: the other host refused the mapping, or no longer has
/// the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MappingError {
    /// The other operating system refused.
    #[error(
        "host {node} refused access to export {export}: there is none of this number, or not for this host, or not under this key"
    )]
    Access {
        /// The host.
        node: u32,
        /// The export at that host.
        export: u32,
    },
    /// The other host's buffer is too short.
    #[error("bytes up to {end} of export {export} of host {node} were to be mapped, and it is shorter")]
    Range {
        /// The host.
        node: u32,
        /// The export at that host.
        export: u32,
        /// End of the bytes that were to be mapped.
        end: u64,
    },
    /// The two buffers begin at different page offsets, but a byte arrives at the page offset at
    /// which it was stored (section 3.2).
    #[error("export {export} of host {node} begins at another place in a page than its handle says")]
    Place {
        /// The host.
        node: u32,
        /// The export at that host.
        export: u32,
    },
    /// The page offsets differ, as for [`MappingError::Place`], detected before the other host was
    /// asked.
    #[error(
        "memory at byte {at} of a page cannot be mapped to byte {there} of one: choose memory at the same byte"
    )]
    OtherPlace {
        /// Offset of the memory in its page.
        at: u32,
        /// Page offset of the byte that it was to be mapped to.
        there: u32,
    },
    /// A page has at most two parts (section 3.2), and neither is free for this buffer.
    #[error("a page of the buffer is mapped out already, or would have more than two parts")]
    Occupied,
    /// The host does not exist, or does not respond.
    #[error("host {node} is not there, or is lost")]
    NoHost {
        /// The host.
        node: u32,
    },
    /// The host exists, but its operating system did not answer in time.
    #[error("host {node} did not answer in time when a mapping was asked for")]
    NoAnswer {
        /// The host.
        node: u32,
    },
    /// The owner took the receive buffer back, or has ended: stores are discarded.
    #[error("export {export} of host {node} was taken back")]
    TakenBack {
        /// The host.
        node: u32,
        /// The export at that host.
        export: u32,
    },
    /// The other host is lost, or was restarted: stores are discarded.
    #[error("host {node}, which had the mapped memory, is lost or has begun anew")]
    Lost {
        /// The host.
        node: u32,
    },
}

impl MappingError {
    /// Returns the kind of the error, which tells a program how to react.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            MappingError::Access { .. } => ErrorKind::Refused,
            MappingError::Range { .. }
            | MappingError::Place { .. }
            | MappingError::OtherPlace { .. }
            | MappingError::Occupied => ErrorKind::Invalid,
            MappingError::NoHost { .. } | MappingError::TakenBack { .. } | MappingError::Lost { .. } => {
                ErrorKind::PeerLost
            }
            MappingError::NoAnswer { .. } => ErrorKind::TimedOut,
        }
    }
}

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
