//! The kinds of guest memory that a server accepts.

/// The kind of memory that clients may map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestMemory {
    /// Maps are recorded but not made: the function cannot access memory.
    Unused,
    /// Only memory that cannot vanish: memfds that are sealed against shrinking and not in
    /// hugetlbfs. This is for processes that serve several machines, because a client that takes
    /// its memory away would end the process.
    Sealed {
        /// Maximum number of bytes mapped at a time.
        limit: u64,
    },
    /// Any shared memory. A client can end the process by taking it away.
    Trusted {
        /// Maximum number of bytes mapped at a time.
        limit: u64,
    },
}

impl GuestMemory {
    /// Default limit of mapped bytes. It is more than most machines have, but small enough that 64
    /// cards fit into an address space.
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
