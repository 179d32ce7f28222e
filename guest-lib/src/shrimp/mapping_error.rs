//! Reasons why a buffer is not mapped.

use crate::core::error_kind::{ErrorKind, model_errors};

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

model_errors!("shrimp", MappingError => |why| why.kind());
