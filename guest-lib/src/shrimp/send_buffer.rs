//! Memory whose stores travel.

use std::sync::Arc;
use std::time::Duration;

use hamlyn_abi::shrimp::entry::{SHRIMP_MODE_BLOCKED, SHRIMP_MODE_DELIBERATE, SHRIMP_MODE_SINGLE};
use hamlyn_abi::shrimp::uapi::*;

use super::card::Shrimp;
use super::deliberate::Underway;
use super::handle::Handle;
use super::mapping_error::MappingError;
use super::mappings::Mappings;
use super::outlet::{Outlet, Pointers};
use super::own_memory::Span;
use super::pieces::MAX_BUFFER;
use crate::core::attach::CardAttachment;
use crate::core::device::Node;
use crate::core::place::PAGE;
use crate::error::{Error, Result, at_most, inside};

/// How often it is asked whether the card sees a machine's stores, before it is taken for one that
/// does not; and how far apart.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// When what is stored in a send buffer is sent (section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Automatic update, single-write (section 4.1): each store at once, as a packet of its own.
    Single,
    /// Automatic update, blocked-write (section 4.1): stores that follow each other in place and
    /// time go as one packet.
    Blocked,
    /// Deliberate update (section 4.3): what [`SendBuffer::send`] says, when it says so.
    Deliberate,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Single, Mode::Blocked, Mode::Deliberate];

    /// A short name.
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

/// Whether a send buffer still leads somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MappingState {
    /// What is stored arrives.
    Mapped,
    /// The receive buffer was taken back, or its process has ended: what is stored goes nowhere.
    TakenBack,
    /// The other host is lost, or has begun anew: what is stored goes nowhere.
    Lost,
}

/// The `send-buf` of section 2: memory of this process that is *mapped out*, so that what is stored
/// in it arrives in a receive buffer.
///
/// **Automatic update** ([`Mode::Single`], [`Mode::Blocked`]). There is nothing to call but the
/// store itself. Where the card sees the processor's stores they go to memory, and cost no more
/// than others. Where it does not ([`CardInfo::snoops`](super::CardInfo::snoops)), the library
/// stores to a window page, and the card to memory. It asks the card ten times, a millisecond
/// apart, when the buffer is made, as a card begins to see stores with the first mapping.
///
/// **When a store has arrived.** Not when the store is done: it travels while the processor goes
/// on, and nothing says when it is there. Nothing need be flushed either. What is certain is the
/// order: what this process has stored before is there before. So the receiver tells by a word that
/// is stored last, and the sender knows that something was taken when the receiver stores an
/// answer. A load from this buffer sees this process' own stores before it.
///
/// **Deliberate update** ([`Mode::Deliberate`]). Stores change memory alone, [`SendBuffer::send`]
/// has the card read and send it.
///
/// **When a store waits.** If the receive buffer was made by
/// [`Card::export_paged`](super::Card::export_paged), the other host may use a page of it for
/// something else while nobody stores there. The next store, or [`SendBuffer::send`], then waits
/// until that host has the page back in memory, or the mapping has ended because that host does not
/// answer. Loads do not wait where the card sees stores; by the window a load behind a store waits
/// for the buffer's first page. Order stays as it is.
///
/// When it is dropped, what was stored is sent and nothing after it. It may be used by several
/// threads; the order is then that in which the card hears of their stores, which for each thread
/// is that of its program.
#[derive(Debug)]
pub struct SendBuffer {
    node: Arc<Node<Shrimp>>,
    // Dropped first: the card is told before the memory goes.
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

    /// Maps memory that there is, and nothing beside it.
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

    /// Maps memory such that byte `offset` of the receive buffer is where the buffer begins:
    /// `first` bytes behind the memory's start.
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
        buffer.look_who_sees()?;
        Ok(buffer)
    }

    /// Finds out where stores must go. A machine begins to tell of its stores when the first page
    /// is mapped for automatic update, with its next interrupt: so it is asked after that, and more
    /// than once.
    fn look_who_sees(&self) -> Result<()> {
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

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outlet.len()
    }

    /// Whether it has none: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The receive buffer that it is mapped to.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Where it lies in this process' memory. Only for languages that can make no other use of it.
    #[must_use]
    pub fn pointers(&self) -> Pointers {
        self.outlet.pointers()
    }

    /// When what is stored is sent.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.outlet.mode() {
            SHRIMP_MODE_SINGLE => Mode::Single,
            SHRIMP_MODE_BLOCKED => Mode::Blocked,
            _ => Mode::Deliberate,
        }
    }

    /// Changes that, page by page and without the operating system (section 4.2). What was stored
    /// before is sent as it was to be sent then; a deliberate update that is under way is waited
    /// for. Other threads must not store meanwhile.
    ///
    /// From deliberate update back it asks whether the card sees the stores, which takes up to 10
    /// ms where it does not.
    ///
    /// # Errors
    /// [`Error::System`] if the card has gone.
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.outlet.wait_until_sent(None, &|| self.is_there())?;
        let was = self.mode();
        if was == Mode::Deliberate {
            // Nobody has seen them meanwhile, nor need begin at once.
            self.outlet.set_seen(false);
        }
        self.outlet.set_mode(mode.to_abi());
        if was == Mode::Deliberate { self.look_who_sees() } else { Ok(()) }
    }

    /// Stores bytes, in rising order and by as many as 8 at a time: who sees the last of them need
    /// not see the first unless it was stored by another call. So a flag is a store of its own,
    /// behind this.
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

    /// The `send` of section 2: has the card send these bytes as they are in memory. All are
    /// multiples of 4. What spans pages is sent page by page, each by one locked instruction, and
    /// the next is tried while the one before is under way (section 4.3). It returns when the last
    /// has begun: memory must not change before [`SendBuffer::wait_until_sent`].
    ///
    /// What is stored or sent later, also in other buffers for the same host, arrives later only if
    /// that was waited for.
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`]; [`Error::Invalid`] if the mode is another;
    /// [`Error::System`] if the card has gone: then some of it may be sent.
    pub fn send(&self, offset: usize, length: usize) -> Result<()> {
        if self.mode() != Mode::Deliberate {
            return Err(Error::Invalid(
                "only a buffer in the mode for deliberate update is sent; stores to others send themselves",
            ));
        }
        self.outlet.send(offset, length, &|| self.is_there())
    }

    /// Whether the card's engine for deliberate updates has nothing to do: there is one, for all
    /// processes of the machine (section 4.3).
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.outlet.is_free()
    }

    /// Returns the transfer that the engine has, asked at the byte at `offset`, a multiple of 4;
    /// `None` if the engine is free. The card reads a transfer in pieces of `update-size` bytes, so
    /// the words that are left fall in steps (section 4.3).
    ///
    /// # Errors
    /// [`Error::PastEnd`], [`Error::Misaligned`].
    pub fn underway(&self, offset: usize) -> Result<Option<Underway>> {
        self.outlet.underway(offset)
    }

    /// Waits until the card has read all that [`SendBuffer::send`] was called for: then memory may
    /// be changed, and what is stored now arrives behind it.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; [`MappingError::TakenBack`] or [`MappingError::Lost`] if it was sent to
    /// nobody, or may have been; [`Error::System`] if the card has gone.
    pub fn wait_until_sent(&self, timeout: Option<Duration>) -> Result<()> {
        self.wait_until_read(timeout)?;
        self.check()
    }

    /// Waits until the card has read it, whether or not the mapping stands.
    pub(super) fn wait_until_read(&self, timeout: Option<Duration>) -> Result<()> {
        self.outlet.wait_until_sent(timeout, &|| self.is_there())
    }

    /// Whether it still leads somewhere. It asks the driver, which hears of the end of a receive
    /// buffer or of a host from the other operating systems (section 4.4): of a host's silence only
    /// after seconds.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn state(&self) -> Result<MappingState> {
        Ok(self.state_and_export()?.0)
    }

    /// How it stands, and which export that is about.
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

    /// Fails if it leads nowhere any more.
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

    /// All of this process' own stores are in its memory when this returns.
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

/// Bytes beside a buffer that are mapped with it, so that each of its pages has at most two parts.
#[derive(Debug, PartialEq, Eq)]
struct Around {
    before: usize,
    behind: usize,
}

/// What is mapped with a buffer of new memory: what is before it in its page, as far as the receive
/// buffer has it. If that is not all of the page, also what is behind it there.
fn around(handle: &Handle, offset: u64, length: usize) -> Result<Around> {
    let place = handle.place_of(offset);
    let before = place.min(usize::try_from(offset).unwrap_or(place));
    let behind = if before == place { 0 } else { (PAGE - place).saturating_sub(length) };
    inside("receive buffer", offset, (length + behind) as u64, handle.length)?;
    Ok(Around { before, behind })
}

/// Refuses a mapping to bytes that the receive buffer has not, or to more than a buffer may have.
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
    fn a_mapping_lies_in_the_receive_buffer() {
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
    fn new_memory_leaves_no_third_part_of_a_page() {
        let of = |handle: &Handle, offset, length| {
            let Around { before, behind } = around(handle, offset, length).unwrap();
            (before, behind)
        };
        let aligned = Handle::new(1, 2, 3, 10_000);
        assert_eq!((of(&aligned, 5000, 1), of(&aligned, 4096, 9)), ((904, 0), (0, 0)));
        // It begins 100 bytes before a page's end, and there is nothing before it.
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
    fn each_mode_has_a_number_and_a_name_of_its_own() {
        assert_eq!(Mode::ALL.map(Mode::to_abi), [1, 2, 3]);
        assert_eq!(Mode::ALL.map(Mode::name), ["single", "blocked", "deliberate"]);
    }
}
