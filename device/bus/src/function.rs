//! The calls that the bus makes to a card.

use crate::bus::Bus;

/// A trapped read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BarRead {
    /// Index of the BAR.
    pub bar: usize,
    /// Offset from the start of the BAR.
    pub offset: u64,
    /// Identifies the read. Keep it if the answer is [`Answer::Later`].
    pub token: ReadToken,
}

/// Identifies a deferred read: see [`crate::Server::complete_read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadToken(pub(crate) u64);

/// Whether a trapped read has its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The data is there.
    Now,
    /// The data comes later through [`crate::Server::complete_read`]. The guest's processor is
    /// stalled until then.
    Later,
}

/// The cause of a reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetCause {
    /// The guest's driver made a function-level reset.
    FunctionLevel,
    /// The virtual machine was reset, with everything in it.
    DeviceReset,
    /// The client disconnected. Its memory is already gone.
    ClientLeft,
}

/// A PCI function: handles the guest's accesses. The server has checked bounds, widths and
/// alignment.
///
/// Methods must not block: QEMU stops its whole virtual machine while it waits for the answer.
pub trait Function {
    /// Whether the function accepts the next access to a BAR. Called after the access has arrived,
    /// so the function can first handle what it observes of its machine in another way.
    ///
    /// After `false` the access waits, and all messages after it. The function is asked again in
    /// each call of [`crate::Server::process`]. The server's descriptor does not signal when to
    /// call that.
    fn is_ready(&mut self, bus: &Bus) -> bool {
        let _ = bus;
        true
    }

    /// Handles an access that has waited for the maximum time.
    ///
    /// If this returns `false`, the bus answers the access without the function: a read gets all
    /// ones, a write is dropped. If it returns `true`, the function has dropped something to become
    /// ready, and the access waits for 10 ms more before the next call. The function must return
    /// `false` after a bounded number of calls.
    fn access_expired(&mut self, bus: &Bus) -> bool {
        let _ = bus;
        false
    }

    /// Handles a trapped read. `data` has 1, 2, 4 or 8 bytes, all zero.
    fn bar_read(&mut self, bus: &Bus, read: BarRead, data: &mut [u8]) -> Answer;

    /// Handles a trapped write of 1, 2, 4 or 8 bytes.
    fn bar_write(&mut self, bus: &Bus, bar: usize, offset: u64, data: &[u8]);

    /// Returns to the power-on state. Bus mastering is already off, and deferred reads have been
    /// answered with all ones.
    fn reset(&mut self, bus: &Bus, cause: ResetCause);

    /// Reports that the guest allowed or forbade the function to write memory and to interrupt.
    fn bus_master_changed(&mut self, bus: &Bus, enabled: bool) {
        let _ = (bus, enabled);
    }

    /// Reports that guest memory was added or removed.
    fn memory_changed(&mut self, bus: &Bus) {
        let _ = bus;
    }
}
