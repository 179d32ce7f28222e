//! Numbers that a person can read: what clients asked of one server.

use crate::codec::Command;

/// Counts since the server began, over all its clients.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Clients that attached.
    pub clients: u64,
    /// Clients that were turned away because there was one already.
    pub clients_refused: u64,
    /// Messages that were refused (malformed, out of order, out of bounds, unknown), and accesses
    /// to a BAR of a width or alignment that the card does not take.
    pub refused: u64,
    /// Reads of trapped parts of a BAR.
    pub trapped_reads: u64,
    /// Writes to trapped parts of a BAR.
    pub trapped_writes: u64,
    /// Reads that were answered with ones because the card's answer did not come in time.
    pub expired_reads: u64,
    /// Accesses that the card did not take in time: reads were answered with ones, writes were
    /// dropped.
    pub expired_accesses: u64,
    /// Resets, of any cause.
    pub resets: u64,
    by_command: [u64; COMMANDS],
}

const COMMANDS: usize = Command::MigrationDataWrite as usize + 1;

impl Counters {
    /// Messages that came, by command.
    pub fn messages(&self) -> impl Iterator<Item = (Command, u64)> + '_ {
        Command::ALL.iter().map(|command| (*command, self.by_command[*command as usize]))
    }

    /// What was not done as it was asked, by name.
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
