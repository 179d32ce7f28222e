//! Counters of what clients have requested from one server.

use crate::codec::Command;

/// Counts since the server started, over all its clients.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Clients that attached.
    pub clients: u64,
    /// Clients that were refused because another client was attached.
    pub clients_refused: u64,
    /// Refused messages (malformed, out of order, out of bounds, unknown). Includes accesses to a
    /// BAR with a width or alignment that the card does not support.
    pub refused: u64,
    /// Reads of trapped parts of a BAR.
    pub trapped_reads: u64,
    /// Writes to trapped parts of a BAR.
    pub trapped_writes: u64,
    /// Reads that were answered with all ones because the card did not answer in time.
    pub expired_reads: u64,
    /// Accesses that the card did not accept in time: reads were answered with all ones, writes
    /// were dropped.
    pub expired_accesses: u64,
    /// Resets with any cause.
    pub resets: u64,
    by_command: [u64; COMMANDS],
}

const COMMANDS: usize = Command::MigrationDataWrite as usize + 1;

impl Counters {
    /// Returns the number of messages received, by command.
    pub fn messages(&self) -> impl Iterator<Item = (Command, u64)> + '_ {
        Command::ALL.iter().map(|command| (*command, self.by_command[*command as usize]))
    }

    /// Returns the counters of requests that were not carried out as requested, by name.
    pub fn failures(&self) -> [(&'static str, u64); 3] {
        let Counters { refused, expired_reads, expired_accesses, .. } = *self;
        [("refused", refused), ("expired_reads", expired_reads), ("expired_accesses", expired_accesses)]
    }

    pub(crate) fn count(&mut self, command: u16) {
        if let Some(count) = self.by_command.get_mut(usize::from(command)) {
            *count += 1;
        }
    }
}
