//! Reasons for refusing a message, and their error numbers.

use crate::codec::{CapabilitiesError, CodecError, MAJOR, MAX_FDS, MAX_MESSAGE_SIZE};
use crate::dma::MapError;
use crate::endpoint::AccessError;
use crate::irq::SetIrqsError;
use crate::shared_file::SharedFileError;
use rustix::io::Errno;
use std::io;
use thiserror::Error;

/// Why a message is refused.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    #[error("it came before VERSION")]
    BeforeVersion,
    #[error("the version is agreed on already")]
    SecondVersion,
    #[error("protocol version {0} is not {MAJOR}")]
    Major(u16),
    #[error("it has {0} bytes (limit {MAX_MESSAGE_SIZE})")]
    Oversized(u32),
    #[error("too many file descriptors came with it (limit {MAX_FDS})")]
    TooManyFds,
    #[error("this process has no descriptor left for those that came with it: raise its limit (ulimit -n)")]
    NoDescriptors,
    #[error("unmap flags {0:#x} are not supported")]
    UnmapFlags(u32),
    #[error("the region's memory cannot be handed over: {0}")]
    Handover(#[source] io::Error),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Capabilities(#[from] CapabilitiesError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Irqs(#[from] SetIrqsError),
}

impl Refusal {
    pub(crate) fn errno(&self) -> Errno {
        match self {
            Refusal::BeforeVersion | Refusal::SecondVersion => Errno::PROTO,
            Refusal::Major(_) => Errno::PROTONOSUPPORT,
            Refusal::Oversized(_) => Errno::MSGSIZE,
            Refusal::NoDescriptors => Errno::MFILE,
            Refusal::UnmapFlags(_) => Errno::OPNOTSUPP,
            Refusal::Handover(error) => Errno::from_io_error(error).unwrap_or(Errno::IO),
            Refusal::Codec(error) => error.errno(),
            Refusal::Map(MapError::Overlap { .. }) => Errno::EXIST,
            Refusal::Map(MapError::TooMany | MapError::TooManyRegions) => Errno::NOSPC,
            Refusal::Map(MapError::File(SharedFileError::TooMuch { .. })) => Errno::NOSPC,
            Refusal::Map(MapError::Slow) => Errno::TIMEDOUT,
            Refusal::Map(MapError::File(SharedFileError::Map(_))) => Errno::NOMEM,
            _ => Errno::INVAL,
        }
    }
}
