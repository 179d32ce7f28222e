//! Numbers that no two processes or messages of a simulation share.

/// The next numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    pid: u64,
    word: u32,
}

impl Default for Numbers {
    fn default() -> Self {
        Self { pid: 0, word: 1 }
    }
}

impl Numbers {
    /// Returns the number of a new process, from 1: 0 is the operating system's.
    pub(super) fn pid(&mut self) -> u64 {
        self.pid += 1;
        self.pid
    }

    /// Returns a unique word of fast mode.
    pub(super) fn word(&mut self) -> u32 {
        self.word += 1;
        self.word
    }
}
