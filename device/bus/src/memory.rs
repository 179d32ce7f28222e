//! Which guest memory a server takes.

/// A server's word on what clients may lend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestMemory {
    /// Maps are recorded, not made: the function reaches no memory.
    Unused,
    /// What can never vanish: memfds that are sealed against shrinking and not in hugetlbfs. For a
    /// process that serves several machines: a client that takes its memory away would end it.
    Sealed {
        /// Bytes that may be mapped at a time.
        limit: u64,
    },
    /// Any shared memory. A client can end the process by taking it away.
    Trusted {
        /// Bytes that may be mapped at a time.
        limit: u64,
    },
}

impl GuestMemory {
    /// Bytes that may be mapped if nobody says otherwise: more than most machines have, and so
    /// little that 64 cards fit into an address space.
    pub const DEFAULT_LIMIT: u64 = 1 << 40;

    pub(crate) fn limit(self) -> u64 {
        match self {
            GuestMemory::Unused => 0,
            GuestMemory::Sealed { limit } | GuestMemory::Trusted { limit } => limit,
        }
    }
}

impl Default for GuestMemory {
    fn default() -> Self {
        GuestMemory::Sealed { limit: Self::DEFAULT_LIMIT }
    }
}
