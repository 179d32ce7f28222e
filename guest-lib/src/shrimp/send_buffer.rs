//! Memory whose stores are sent to another host.

use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_BLOCKED, SHRIMP_MODE_DELIBERATE, SHRIMP_MODE_SINGLE};
use hamlyn_abi::shrimp::uapi::*;

use super::deliberate::Underway;
use super::handle::Handle;
use super::mapping_error::MappingError;
use super::mappings::Mappings;
use super::model::Shrimp;
use super::outlet::{Outlet, Pointers};
use super::own_memory::Span;
use super::pieces::MAX_BUFFER;
use crate::core::attach::CardAttachment;
use crate::core::device::Node;
use crate::core::place::PAGE;
use crate::error::{Error, Result, at_most, inside};

/// Number of checks whether the card sees a machine's stores, before this is taken to be false; and
/// the interval.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Determines when stores to a send buffer are sent (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Automatic update, single-write (section 4.1): each store is sent at once, in a packet of its
    /// own.
    Single,
    /// Automatic update, blocked-write (section 4.1): stores that are adjacent in place and time
    /// are sent in one packet.
    Blocked,
    /// Deliberate update (section 4.3): bytes are sent by [`SendBuffer::send`].
    Deliberate,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 3] = [Mode::Single, Mode::Blocked, Mode::Deliberate];

    /// Returns a short name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Single => "single",
            Mode::Blocked => "blocked",
            Mode::Deliberate => "deliberate",
        }
    }

    fn to_abi(self) -> u32 {
        match self {
            Mode::Single => SHRIMP_MODE_SINGLE,
            Mode::Blocked => SHRIMP_MODE_BLOCKED,
            Mode::Deliberate => SHRIMP_MODE_DELIBERATE,
        }
    }
}

/// Whether a send buffer is still mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MappingState {
    /// Stores arrive.
    Mapped,
    /// The receive buffer was taken back, or its process has ended: stores are discarded.
    TakenBack,
    /// The other host is lost, or was restarted: stores are discarded.
    Lost,
}

/// The `send-buf` of section 2: memory of this process that is *mapped out*, so that stores to it
/// arrive in a receive buffer.
///
/// **Automatic update** ([`Mode::Single`], [`Mode::Blocked`]). Only the store itself is needed. If
/// the card sees the processor's stores, they go to memory, and cost no more than others. If it
/// does not ([`CardInfo::snoops`](super::CardInfo::snoops)), the library stores to a window page,
/// and the card stores to memory. The library checks this ten times, a millisecond apart, when the
/// buffer is made, because a card begins to see stores with the first mapping.
///
/// **When a store has arrived.** A store is posted: it is in flight when the instruction completes,
/// and there is no notification of its arrival. A flush is not needed either. Only the order is
/// guaranteed: earlier stores of this process arrive earlier. So a word that is stored last tells
/// the receiver that all data has arrived. The sender knows that data was taken when the receiver
/// stores an answer. A load from this buffer sees earlier stores of this process.
///
/// **Deliberate update** ([`Mode::Deliberate`]). Stores only change memory. [`SendBuffer::send`]
/// makes the card read and send it.
///
/// **When a store waits.** This concerns receive buffers of
/// [`Card::export_paged`](super::Card::export_paged). The other host may reclaim a page of such a
/// buffer while there are no stores to it. The next store, or [`SendBuffer::send`], then blocks
/// until that host has the page back in memory. It also returns if the mapping has ended because
/// that host does not answer. Loads do not block if the card sees stores. Otherwise, a load after a
/// store by the window waits for the buffer's first page. The order is preserved.
///
/// When the buffer is dropped, all earlier stores are sent and later ones are not. Several threads
/// may use it. Their stores are then sent in the order in which the card receives them, which for
/// each thread is program order.
#[derive(Debug)]
pub struct SendBuffer {
    node: Arc<Node<Shrimp>>,
    // Dropped first: the card is notified before the memory is freed.
    mappings: Mappings,
    handle: Handle,
    outlet: Outlet,
}

impl SendBuffer {
    /// Maps new memory.
    pub(super) fn map(
        node: &Arc<Node<Shrimp>>,
        handle: &Handle,
        offset: u64,
        length: usize,
        mode: Mode,
    ) -> Result<Self> {
        check(handle, offset, length)?;
        let around = around(handle, offset, length)?;
        let place = handle.place_of(offset);
        let memory = Arc::new(node.allocate(place + length + around.behind)?);
        let mapped = around.before + length + around.behind;
        let mapped = Span::new(memory, place - around.before, mapped);
        Self::over(node, &mapped, (around.before, length), handle, offset, mode)
    }

    /// Maps existing memory, and nothing around it.
    pub(super) fn of_span(
        node: &Arc<Node<Shrimp>>,
        span: &Span,
        handle: &Handle,
        offset: u64,
        mode: Mode,
    ) -> Result<Self> {
        check(handle, offset, span.len())?;
        if span.place() != handle.place_of(offset) {
            let (at, there) = (span.place() as u32, handle.place_of(offset) as u32);
            return Err(MappingError::OtherPlace { at, there }.into());
        }
        Self::over(node, span, (0, span.len()), handle, offset, mode)
    }

    /// Maps memory so that byte `offset` of the receive buffer is the first byte of the buffer,
    /// which is `first` bytes after the memory's start.
    fn over(
        node: &Arc<Node<Shrimp>>,
        mapped: &Span,
        (first, length): (usize, usize),
        handle: &Handle,
        offset: u64,
        mode: Mode,
    ) -> Result<Self> {
        let mappings = Mappings::make(node, mapped, handle, offset - first as u64, mode.to_abi())?;
        let (commands, window, seen) = (mappings.commands()?, mappings.window()?, mappings.seen()?);
        let outlet = Outlet::new(mapped.part(first, length), seen, commands, window, mode.to_abi());
        let buffer = Self { node: node.clone(), mappings, handle: *handle, outlet };
        buffer.detect_snooping()?;
        Ok(buffer)
    }

    /// Finds out where stores must go. A machine begins to report its stores when the first page is
    /// mapped for automatic update, with its next interrupt. So the check follows the mapping, and
    /// is repeated.
    fn detect_snooping(&self) -> Result<()> {
        if self.mode() == Mode::Deliberate {
            return Ok(());
        }
        for look in 0..LOOKS {
            if look > 0 {
                std::thread::sleep(BETWEEN_LOOKS);
            }
            let query = self.node.query()?;
            if query.of_card::<ShrimpQuery>().is_some_and(|own| own.snoops != 0) {
                self.outlet.set_seen(true);
                return Ok(());
            }
        }
        self.outlet.set_seen(false);
        Ok(())
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outlet.len()
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the handle of the receive buffer that this is mapped to.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns its addresses in this process. Only for languages that cannot use the other methods.
    #[must_use]
    pub fn pointers(&self) -> Pointers {
        self.outlet.pointers()
    }

    /// Returns the mode, which determines when stores are sent.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.outlet.mode() {
            SHRIMP_MODE_SINGLE => Mode::Single,
            SHRIMP_MODE_BLOCKED => Mode::Blocked,
            _ => Mode::Deliberate,
        }
    }

    /// Changes the mode, page by page and without the operating system (section 4.2). Earlier
    /// stores are sent in the old mode, and the call waits for a deliberate update in progress.
    /// Other threads must not store concurrently.
    ///
    /// When leaving deliberate update, the call checks whether the card sees the stores. This takes
    /// up to 10 ms if it does not.
    ///
    /// # Errors
    /// [`Error::System`] if the card is gone.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.outlet.wait_until_sent(None, &|| self.is_there())?;
        let was = self.mode();
        if was == Mode::Deliberate {
            // The card has not seen stores meanwhile, and need not begin at once.
            self.outlet.set_seen(false);
        }
        self.outlet.set_mode(mode.to_abi());
        if was == Mode::Deliberate { self.detect_snooping() } else { Ok(()) }
    }

    /// Stores bytes in ascending order, up to 8 at a time. A receiver that sees the last of them
    /// may not see the first yet, unless another call stored it. So store a flag separately, after
    /// this.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.outlet.write(offset, from)
    }

    /// Copies bytes out of this process' own memory.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.outlet.read(offset, to)
    }

    /// The `send` of section 2: makes the card send these bytes as they are in memory. Offset and
    /// length must be multiples of 4.
    ///
    /// A range of several pages is sent page by page, each with one locked instruction. The next
    /// page is tried while the one before is in progress (section 4.3). The call returns when the
    /// last page has begun: memory must not change before [`SendBuffer::wait_until_sent`].
    ///
    /// Later stores and sends, also in other buffers for the same host, only arrive later if the
    /// caller has waited for this.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`]; [`Error::Invalid`] in another mode;
    /// [`Error::System`] if the card is gone: some of the bytes may then be sent.
    pub fn send(&self, offset: usize, length: usize) -> Result<()> {
        if self.mode() != Mode::Deliberate {
            return Err(Error::Invalid(
                "only a buffer in the mode for deliberate update is sent; stores to others send themselves",
            ));
        }
        self.outlet.send(offset, length, &|| self.is_there())
    }

    /// Returns whether the card's engine for deliberate updates is idle. All processes of the
    /// machine share one engine (section 4.3).
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.outlet.is_free()
    }

    /// Returns the engine's current transfer, queried at the byte at `offset`, a multiple of 4;
    /// `None` if the engine is free. The card reads a transfer in pieces of `update-size` bytes, so
    /// the number of words left decreases in steps (section 4.3).
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn underway(&self, offset: usize) -> Result<Option<Underway>> {
        self.outlet.underway(offset)
    }

    /// Blocks until the card has read everything that [`SendBuffer::send`] was called for. Then
    /// memory may be changed, and later stores arrive after it.
    ///
    /// # Errors
    /// [`MappingError::TakenBack`] or [`MappingError::Lost`] if the bytes were discarded, or may
    /// have been; [`Error::System`] if the card is gone.
    pub fn wait_until_sent(&self) -> Result<()> {
        self.wait_until_sent_within(None)
    }

    /// As [`SendBuffer::wait_until_sent`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`SendBuffer::wait_until_sent`].
    pub fn wait_until_sent_timeout(&self, timeout: Duration) -> Result<()> {
        self.wait_until_sent_within(Some(timeout))
    }

    fn wait_until_sent_within(&self, timeout: Option<Duration>) -> Result<()> {
        self.wait_until_read(timeout)?;
        self.check()
    }

    /// Blocks until the card has read the bytes, even if the mapping has ended.
    pub(super) fn wait_until_read(&self, timeout: Option<Duration>) -> Result<()> {
        self.outlet.wait_until_sent(timeout, &|| self.is_there())
    }

    /// Returns whether the buffer is still mapped. Queries the driver, which learns of the end of a
    /// receive buffer or of a host from the other operating systems (section 4.4). A host that
    /// stops responding is detected only after seconds.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn state(&self) -> Result<MappingState> {
        Ok(self.state_and_export()?.0)
    }

    /// Returns the state, and the export that it is about.
    fn state_and_export(&self) -> Result<(MappingState, u32)> {
        let (state, export) = self.mappings.state()?;
        let state = match state {
            SHRIMP_STATE_MAPPED => MappingState::Mapped,
            SHRIMP_STATE_TAKEN_BACK => MappingState::TakenBack,
            SHRIMP_STATE_LOST => MappingState::Lost,
            other => {
                return Err(Error::Incompatible {
                    object: "state of a mapping",
                    value: other.into(),
                    expected: SHRIMP_STATE_LOST.into(),
                });
            }
        };
        Ok((state, export))
    }

    /// Fails if the mapping has ended.
    ///
    /// # Errors
    /// [`MappingError::TakenBack`], [`MappingError::Lost`]; [`Error::System`].
    pub fn check(&self) -> Result<()> {
        let node = self.handle.node;
        match self.state_and_export()? {
            (MappingState::Mapped, _) => Ok(()),
            (MappingState::TakenBack, export) => Err(MappingError::TakenBack { node, export }.into()),
            (MappingState::Lost, _) => Err(MappingError::Lost { node }.into()),
        }
    }

    pub(super) fn outlet(&self) -> &Outlet {
        &self.outlet
    }

    /// Returns when all of this process' own stores are in its memory.
    pub(super) fn settle(&self) {
        self.outlet.settle();
    }

    pub(super) fn is_there(&self) -> Result<()> {
        self.node.query().map(drop)
    }
}

macro_rules! words {
    ($($load:ident, $store:ident, $word:ty, $bytes:literal;)*) => {
        impl SendBuffer {
            $(
                #[doc = concat!("Stores ", $bytes, " at `offset`, a multiple of as many: a store that arrives in one piece.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $store(&self, offset: usize, value: $word) -> Result<()> {
                    self.outlet.store(offset, value)
                }

                #[doc = concat!("The ", $bytes, " at `offset` in this process' own memory.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $load(&self, offset: usize) -> Result<$word> {
                    self.outlet.load(offset)
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

/// Bytes around a buffer that are mapped with it, so that each of its pages has at most two parts.
#[derive(Debug, PartialEq, Eq)]
struct Around {
    before: usize,
    behind: usize,
}

/// Returns the bytes to be mapped with a buffer of new memory: those before it in its page, as far
/// as the receive buffer has them. If these are not all of the page's bytes before it, also the
/// bytes after it in the page.
fn around(handle: &Handle, offset: u64, length: usize) -> Result<Around> {
    let place = handle.place_of(offset);
    let before = place.min(usize::try_from(offset).unwrap_or(place));
    let behind = if before == place { 0 } else { (PAGE - place).saturating_sub(length) };
    inside("receive buffer", offset, (length + behind) as u64, handle.length)?;
    Ok(Around { before, behind })
}

/// Checks that a mapping is inside the receive buffer, and within the size limit of buffers.
fn check(handle: &Handle, offset: u64, length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::Invalid("a send buffer has at least one byte"));
    }
    inside("receive buffer", offset, length as u64, handle.length)?;
    at_most(
        "receive buffer length, with what is before it in its page,",
        handle.length.saturating_add(handle.place.into()),
        MAX_BUFFER,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_outside_receive_buffer_is_refused() {
        let handle = Handle::new(1, 2, 3, 10_000);
        check(&handle, 0, 10_000).unwrap();
        assert_eq!(
            check(&handle, 5000, 5001).unwrap_err().to_string(),
            "5001 bytes at offset 5000 reach past the end of the receive buffer (limit 10000)"
        );
        assert!(check(&handle, u64::MAX, 2).is_err() && check(&handle, 0, 0).is_err());
        check(&Handle::new(1, 2, 3, MAX_BUFFER), 4097, 4 << 20).unwrap();
        let refused = check(&Handle::new(1, 2, 3, MAX_BUFFER + 1), 0, 1).unwrap_err().to_string();
        assert!(refused.contains("16777217 is out of range (limit 16777216)"), "{refused}");
    }

    #[test]
    fn new_memory_leaves_no_third_page_part() {
        let of = |handle: &Handle, offset, length| {
            let Around { before, behind } = around(handle, offset, length).unwrap();
            (before, behind)
        };
        let aligned = Handle::new(1, 2, 3, 10_000);
        assert_eq!((of(&aligned, 5000, 1), of(&aligned, 4096, 9)), ((904, 0), (0, 0)));
        // The buffer begins 100 bytes before a page's end, and has nothing before it.
        let inside = Handle::of_exports(1, PAGE - 100, 10_000, [(2, 3)].into_iter());
        assert_eq!((of(&inside, 0, 1), of(&inside, 60, 8)), ((0, 99), (60, 32)));
        assert_eq!(
            (of(&inside, 0, 100), of(&inside, 100, 1), of(&inside, 200, 1)),
            ((0, 0), (0, 0), (100, 0))
        );
        let forged = Handle::of_exports(1, 4, 10, [(2, 3)].into_iter());
        assert!(around(&forged, 0, 1).is_err());
    }

    #[test]
    fn each_mode_has_its_number_and_name() {
        assert_eq!(Mode::ALL.map(Mode::to_abi), [1, 2, 3]);
        assert_eq!(Mode::ALL.map(Mode::name), ["single", "blocked", "deliberate"]);
    }
}
