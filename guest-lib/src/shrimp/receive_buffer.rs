//! Memory that other hosts store to.

use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_abi::shrimp::memory::SHRIMP_REPORT_NEXT;
use hamlyn_abi::shrimp::uapi::*;
use hamlyn_abi::uapi::UlnObject;
use hamlyn_sys::{Access, Mapping, Word};
use rustix::io::Errno;

use super::handle::Handle;
use super::model::Shrimp;
use super::own_memory::Span;
use super::pieces::{MAX_BUFFER, cut};
use super::refusals::{BEYOND_TABLE, OCCUPIED, OTHER_ADDRESSES, errno};
use crate::core::attach::CardAttachment;
use crate::core::device::{Node, nanoseconds};
use crate::core::memory::Memory;
use crate::core::place::{PAGE, aligned};
use crate::core::polling::{Poller, Polling};
use crate::error::{Error, Result, at_most, inside};

/// The `receive-buf` of section 2: memory of this process that is *mapped in*, so that other hosts
/// store to it. Remote stores appear in the memory without any call of this library.
///
/// Stores of one host arrive in order (section 4.1). Stores of several hosts may interleave in any
/// order. A load of a word also sees everything that its sender stored before that word.
///
/// After this is dropped, nothing more arrives. Hosts that have mapped it learn of this through
/// [`super::SendBuffer::state`].
#[derive(Debug)]
pub struct ReceiveBuffer {
    node: Arc<Node<Shrimp>>,
    // Dropped first: the card is notified before the memory is freed.
    exports: Vec<Export>,
    memory: Span,
    /// The command pages for the buffer's pages.
    commands: Arc<Mapping>,
    poller: Poller,
}

/// Up to 4 MiB of the buffer, which is the driver's limit.
#[derive(Debug)]
struct Export {
    node: Arc<Node<Shrimp>>,
    made: ShrimpExport,
    /// The number of reports that the driver returned last.
    reports: AtomicU32,
}

impl ReceiveBuffer {
    /// Exports new memory. `policy` is `SHRIMP_POLICY_*`.
    pub(super) fn export(node: &Arc<Node<Shrimp>>, length: usize, nodes: u64, policy: u32) -> Result<Self> {
        check_length(0, length)?;
        let memory = Arc::new(node.allocate(length)?);
        Self::over(node, Span::new(memory, 0, length), nodes, policy)
    }

    /// Exports existing memory.
    pub(super) fn over(node: &Arc<Node<Shrimp>>, memory: Span, nodes: u64, policy: u32) -> Result<Self> {
        check_length(memory.place(), memory.len())?;
        if nodes == 0 {
            return Err(Error::Invalid("a receive buffer has a host that may map it"));
        }
        let place = memory.place() as u64;
        let pieces = cut(place, memory.len() as u64);
        let exports = pieces.map(|(at, length)| {
            let address = memory.card_address() + at - place;
            let made = ShrimpExport { address, length, nodes, policy, ..ShrimpExport::default() };
            Export::make(node, made, memory.memory())
        });
        let exports = exports.collect::<Result<Vec<_>>>()?;
        let parts: Vec<_> = exports.iter().map(Export::command_pages).collect();
        let commands = node.map_parts("command pages", &parts, Access::ReadWrite)?;
        Ok(Self { node: node.clone(), exports, memory, commands, poller: Poller::default() })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address in this process. Only for languages that cannot use the other methods.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.memory.address() as usize as *const u8
    }

    /// Returns the handle by which other processes map the buffer.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn handle(&self) -> Result<Handle> {
        match self.node.query()?.host {
            ULN_NO_HOST => Err(Error::LinkDown),
            host => {
                let exports = self.exports.iter().map(|export| (export.made.export, export.made.key));
                Ok(Handle::of_exports(host, self.memory.place(), self.len() as u64, exports))
            }
        }
    }

    /// Returns the address in this process.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Tells the kernel that the buffer is not needed soon. For a buffer of
    /// [`Card::export_paged`](super::Card::export_paged), it can then reclaim pages that it has
    /// asked for already. Pages that other hosts store to stay in memory, and so do all pages of
    /// other buffers.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel does not support this, or if the program's own memory does
    /// not begin at a page boundary.
    pub fn page_out(&self) -> Result<()> {
        let told = self.memory.mapping().page_out();
        told.map_err(self.node.error("give pages up"))
    }

    /// Copies bytes out of the buffer. The copy may contain a part of a concurrent store.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.memory.read(offset, to)
    }

    /// Copies bytes into the buffer, only for this process: to clear a flag, or a buffer for the
    /// next data.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.memory.write(offset, from)
    }

    /// Blocks while the four bytes at `offset`, a multiple of 4, equal `value`, and returns their
    /// new value. Polls for a while before it sleeps.
    ///
    /// Section 4.2: through the page's command page, the process asks the card for an interrupt at
    /// the next arrival there. It sleeps in the driver until then.
    ///
    /// The loss of the writer is not an arrival: keep a connection, or set a timeout.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`]; [`Error::System`] if the card is gone.
    pub fn wait(&self, offset: usize, value: u32) -> Result<u32> {
        self.wait_within(offset, value, None)
    }

    /// As [`ReceiveBuffer::wait`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`ReceiveBuffer::wait`].
    pub fn wait_timeout(&self, offset: usize, value: u32, timeout: Duration) -> Result<u32> {
        self.wait_within(offset, value, Some(timeout))
    }

    pub(super) fn wait_within(&self, offset: usize, value: u32, timeout: Option<Duration>) -> Result<u32> {
        self.check::<u32>(offset)?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let look = || Some(self.load::<u32>(offset)).filter(|now| *now != value);
        let asleep = match self.poller.poll(timeout, look) {
            Ok(found) => return Ok(found),
            Err(asleep) => asleep,
        };
        let mut in_time = true;
        loop {
            let reports = self.arm(offset, None);
            // Data that arrived before the request is visible now; later arrivals are reported.
            if look().is_none() && in_time {
                let left = until.map(|until| until.saturating_duration_since(Instant::now()));
                in_time = self.export_of(offset).await_report(reports, left)?;
            }
            if let Some(found) = look() {
                asleep.found();
                return Ok(found);
            }
            if !in_time {
                let after = timeout.unwrap_or_default();
                return Err(Error::TimedOut { what: "other value of a word", after });
            }
        }
    }

    /// Sets how long [`ReceiveBuffer::wait`] polls before it sleeps.
    pub fn set_polling(&self, polling: Polling) {
        self.poller.set(polling);
    }

    /// Asks the card to report the next arrival in the page of a byte (section 4.2), and in that of
    /// another byte of the same export. The card has received the commands when this returns.
    /// Returns the number of reports before that.
    pub(super) fn arm(&self, offset: usize, other: Option<usize>) -> u32 {
        let reports = self.export_of(offset).reports.load(Ordering::Acquire);
        let page = |offset: usize| (self.memory.place() + offset) / PAGE * PAGE;
        if let Some(other) = other {
            self.commands.store_u32_release(page(other), SHRIMP_REPORT_NEXT);
        }
        self.commands.store_u32_release(page(offset), SHRIMP_REPORT_NEXT);
        // The answer comes after both stores.
        black_box(self.commands.load_u32_acquire(page(offset)));
        reports
    }

    /// Makes the file for a byte readable once there are more than `reports` reports. Returns
    /// whether there already are.
    pub(super) fn arm_file(&self, offset: usize, reports: u32) -> Result<bool> {
        let export = self.export_of(offset);
        export.await_report(reports, Some(Duration::ZERO))?;
        Ok(export.reports.load(Ordering::Acquire) != reports)
    }

    /// Opens the file of the export that contains a byte of the buffer.
    pub(super) fn file(&self, offset: usize) -> Result<OwnedFd> {
        let export = self.export_of(offset);
        export.node.object_file(export.made.commands_offset, 0)
    }

    /// Returns the export that contains a byte of the buffer.
    fn export_of(&self, offset: usize) -> &Export {
        &self.exports[(self.memory.place() + offset) / SHRIMP_MAX_BUFFER as usize]
    }

    pub(super) fn span(&self) -> &Span {
        &self.memory
    }

    fn check<W: Word>(&self, offset: usize) -> Result<()> {
        inside("receive buffer", offset as u64, size_of::<W>() as u64, self.memory.len() as u64)?;
        aligned::<W>("offset", offset)?;
        aligned::<W>("place in the page", self.memory.place() + offset)
    }

    /// Loads a word. The caller has checked the offset.
    fn load<W: Word>(&self, offset: usize) -> W {
        self.memory.mapping().load_word(self.memory.start() + offset)
    }

    fn checked_load<W: Word>(&self, offset: usize) -> Result<W> {
        self.check::<W>(offset)?;
        Ok(self.load(offset))
    }

    fn checked_store<W: Word>(&self, offset: usize, value: W) -> Result<()> {
        self.check::<W>(offset)?;
        self.memory.mapping().store_word(self.memory.start() + offset, value);
        Ok(())
    }
}

macro_rules! words {
    ($($load:ident, $store:ident, $word:ty, $bytes:literal;)*) => {
        impl ReceiveBuffer {
            $(
                #[doc = concat!("The ", $bytes, " at `offset`, a multiple of as many, in one piece.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                pub fn $load(&self, offset: usize) -> Result<$word> {
                    self.checked_load(offset)
                }

                #[doc = concat!("Stores ", $bytes, " at `offset`, a multiple of as many, in one piece and for this process alone.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                pub fn $store(&self, offset: usize, value: $word) -> Result<()> {
                    self.checked_store(offset, value)
                }
            )*
        }
    };
}

words! {
    load_u8, store_u8, u8, "byte";
    load_u16, store_u16, u16, "2 bytes";
    load_u32, store_u32, u32, "4 bytes";
    load_u64, store_u64, u64, "8 bytes";
}

impl Export {
    fn make(node: &Arc<Node<Shrimp>>, mut made: ShrimpExport, memory: &Memory) -> Result<Self> {
        let action = format!("export {} bytes", made.length);
        node.create::<SHRIMP_IOC_EXPORT, _>(&action, SHRIMP_SHARE_EXPORTS, &mut made, &[memory])
            .map_err(|error| refused(node, made.length, action, error))?;
        Ok(Self { node: node.clone(), made, reports: AtomicU32::new(0) })
    }

    /// Returns the driver's offset of the command pages, and their size in bytes.
    fn command_pages(&self) -> (u64, usize) {
        let place = self.made.address as usize % PAGE;
        (self.made.commands_offset, (place + self.made.length as usize).next_multiple_of(PAGE))
    }

    /// Sleeps while the driver's count of reports equals `reports`. Returns false after a timeout.
    fn await_report(&self, reports: u32, left: Option<Duration>) -> Result<bool> {
        let (timeout_ns, export) = (nanoseconds(left), self.made.export);
        let mut wait = ShrimpWait { timeout_ns, export, arrivals: reports };
        match self.node.call::<SHRIMP_IOC_WAIT, _>("wait for an arrival in an export", &mut wait, &[]) {
            Ok(()) => self.reports.store(wait.arrivals, Ordering::Release),
            // A signal: there may be time left.
            Err(error) if errno(&error) == Some(Errno::INTR) => {}
            Err(error) if errno(&error) == Some(Errno::TIMEDOUT) => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(left != Some(Duration::ZERO))
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        let mut object = UlnObject { index: self.made.export, ..UlnObject::default() };
        // A failure means that the card is gone, and the export with it.
        let _ = self.node.call::<SHRIMP_IOC_UNEXPORT, _>("take an export back", &mut object, &[]);
    }
}

/// Checks the length of a buffer.
fn check_length(place: usize, length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::Invalid("a receive buffer has at least one byte"));
    }
    let end = (length as u64).saturating_add(place as u64);
    at_most("receive buffer length, with what is before it in its page,", end, MAX_BUFFER)
}

/// Converts the driver's error for memory that it refused.
pub(super) fn refused(node: &Node<Shrimp>, bytes: u64, action: String, error: Error) -> Error {
    match (errno(&error), error) {
        (Some(Errno::OPNOTSUPP), _) => Error::Unsupported(OTHER_ADDRESSES),
        (Some(Errno::NXIO), _) => Error::Unsupported(BEYOND_TABLE),
        (Some(Errno::BUSY), _) => Error::Invalid(OCCUPIED),
        (Some(Errno::NOMEM), Error::System { source, .. }) => {
            let other = node.error(action.clone());
            node.memory_error(bytes, action, other)(source)
        }
        (_, error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_limit_includes_offset_in_page() {
        check_length(0, 16 << 20).unwrap();
        check_length(4000, (16 << 20) - 4000).unwrap();
        let refused = check_length(1, 16 << 20).unwrap_err().to_string();
        assert!(refused.contains("16777217 is out of range (limit 16777216)"), "{refused}");
        assert!(check_length(0, 0).is_err() && check_length(1, usize::MAX).is_err());
    }
}
