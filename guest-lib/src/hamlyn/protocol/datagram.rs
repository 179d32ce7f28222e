//! Simple datagram (section 3.3): the card's own semantics, with an offset, a length and perhaps a
//! reply ticket told.
//!
//! A receiver is *ready* for one message at a time, or not: there is no queue, and no flow control.
//! A message to a receiver that is not ready is refused by the receiver's card, which counts it
//! (`refused_one_shot`), and nobody else notices. So who sends must know by other means that the
//! receiver is ready: as a reply to a request is known to be expected.
//!
//! Sent means that the sender's card has put the message on the link. A message whose sender ends
//! half-way is taken back by its card. If that card or the switch itself is lost, the receiver has
//! some packets, and no later message of several packets completes. [`DatagramReceiver::receive`]
//! then fails with [`Error::Incomplete`]; [`DatagramReceiver::revoke`] or
//! [`DatagramReceiver::forget`] makes the receiver ready again.
//!
//! What arrives was deposited in the receiver's memory and stays as it is until
//! [`DatagramReceiver::rearm`]; the borrow checker sees to it that nobody holds a [`Datagram`]
//! then.
//!
//! ```no_run
//! use hamlyn::Manager;
//! use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
//!
//! # fn example(peer: hamlyn::Ticket) -> hamlyn::Result<()> {
//! let manager = Manager::create(&hamlyn::Card::open_default()?)?;
//! let mut replies = DatagramReceiver::create(&manager, 4096)?;
//! DatagramSender::new(&manager).send(&peer, b"question", 0, Some(&replies.ticket()?))?;
//! println!("{:?}", replies.receive(None)?.to_vec());
//! replies.rearm();
//! # Ok(())
//! # }
//! ```

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::core::key::random_key;
use crate::error::{Error, GivenBack, Result, at_most};
use crate::hamlyn::manager::{Arrived, Buffer, Look, Manager, Pause, Place, Ready, ReceiverClass, Sent};
use crate::hamlyn::message_area::MessageArea;
use crate::hamlyn::record::{Landed, landed};
use crate::hamlyn::request::Message;
use crate::hamlyn::send_buffer::Piece;
use crate::hamlyn::terminus::{Handle, Source};
use crate::hamlyn::ticket::Ticket;

/// What the metadata starts with; the digit is the version.
const MAGIC: [u8; 4] = *b"HDG1";
/// Metadata: the mark, offset, length.
const HEAD: usize = 12;
/// And a reply ticket, or zeros.
const METADATA: usize = HEAD + Ticket::SIZE;
/// How long packets of a message may stand alone before the receiver takes the rest for lost.
const STALLED: Duration = Duration::from_secs(10);
/// How often a waiting receiver looks for such packets at most.
const SHORTEST: Duration = Duration::from_millis(100);
/// The most receivers of a group.
const MAX_GROUP: u32 = 65536;

/// The sending end, for all tickets of [`DatagramReceiver`]s.
#[derive(Debug, Clone)]
pub struct DatagramSender {
    manager: Manager,
}

impl DatagramSender {
    /// The most bytes that are sent from the caller's memory, by direct I/O. Longer ones lie in a
    /// [`Buffer`].
    pub const MAX_DIRECT: usize = 392;

    /// Sends from the manager's terminus.
    #[must_use]
    pub fn new(manager: &Manager) -> Self {
        Self { manager: manager.clone() }
    }

    /// Writes a message `offset` bytes into the ticket's buffer, and tells its receiver where it
    /// is, and how to reply. While all work-queue entries are in use it waits.
    ///
    /// # Errors
    /// Those of [`crate::Terminus::send`]; [`Error::Invalid`] for a fast-mode ticket.
    pub fn send<'a>(
        &self,
        to: &Ticket,
        data: impl Into<Source<'a>>,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Handle> {
        let data = data.into();
        let metadata = metadata(to, offset, data.len(), reply)?;
        self.manager.terminus().send(&Message::to(to).metadata(&metadata).offset(offset), data)
    }

    /// Like [`DatagramSender::send`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and those of [`DatagramSender::send`].
    pub fn try_send<'a>(
        &self,
        to: &Ticket,
        data: impl Into<Source<'a>>,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Handle> {
        let data = data.into();
        let metadata = metadata(to, offset, data.len(), reply)?;
        self.manager.terminus().try_send(&Message::to(to).metadata(&metadata).offset(offset), data)
    }

    /// Like [`DatagramSender::send`], for a whole buffer, which the card gathers from.
    ///
    /// # Errors
    /// Those of [`DatagramSender::send`], and the buffer is given back.
    pub fn send_buffer(
        &self,
        to: &Ticket,
        buffer: Buffer,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Sent, GivenBack<Buffer>> {
        sent(buffer, |piece| self.send(to, piece, offset, reply))
    }

    /// Like [`DatagramSender::send_buffer`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and those of [`DatagramSender::send_buffer`], and the buffer is given
    /// back.
    pub fn try_send_buffer(
        &self,
        to: &Ticket,
        buffer: Buffer,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Sent, GivenBack<Buffer>> {
        sent(buffer, |piece| self.try_send(to, piece, offset, reply))
    }
}

impl DatagramSender {
    /// Like [`DatagramSender::send`], for a part of a buffer, which is lent only: the card gathers
    /// from these bytes until the handle says that it has finished, and they cannot be written to
    /// before. So one buffer goes to several peers.
    ///
    /// # Errors
    /// Those of [`DatagramSender::send`], [`Error::PastEnd`] for the part.
    pub fn send_from(
        &self,
        to: &Ticket,
        buffer: &Buffer,
        part: Range<usize>,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Handle> {
        let piece = buffer.part(part)?;
        self.send(to, piece, offset, reply).inspect(|handle| buffer.sent_by(handle))
    }

    /// Like [`DatagramSender::send_from`], but does not wait.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], and those of [`DatagramSender::send_from`].
    pub fn try_send_from(
        &self,
        to: &Ticket,
        buffer: &Buffer,
        part: Range<usize>,
        offset: u32,
        reply: Option<&Ticket>,
    ) -> Result<Handle> {
        let piece = buffer.part(part)?;
        self.try_send(to, piece, offset, reply).inspect(|handle| buffer.sent_by(handle))
    }
}

/// Sends the whole of a buffer.
fn sent(buffer: Buffer, send: impl FnOnce(Piece<'_>) -> Result<Handle>) -> Result<Sent, GivenBack<Buffer>> {
    match buffer.piece(0, buffer.len()).and_then(send) {
        Ok(handle) => {
            buffer.sent_by(&handle);
            Ok(Sent::new(buffer, Some(handle)))
        }
        Err(error) => Err(GivenBack::new(error, buffer)),
    }
}

fn metadata(to: &Ticket, offset: u32, length: usize, reply: Option<&Ticket>) -> Result<[u8; METADATA]> {
    if to.is_fast() {
        return Err(Error::Invalid("a datagram needs a ticket for a metadata entry"));
    }
    at_most("message length", length as u64, u32::MAX.into())?;
    let mut bytes = [0; METADATA];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..8].copy_from_slice(&offset.to_le_bytes());
    bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    if let Some(reply) = reply {
        bytes[HEAD..].copy_from_slice(&reply.to_bytes());
    }
    Ok(bytes)
}

/// A receiver of one message at a time: a metadata entry, and the bytes that it opens.
///
/// Any thread may have it. Dropped, it takes no more.
#[derive(Debug)]
pub struct DatagramReceiver {
    group: Arc<Group>,
    manager: Manager,
    entry: u32,
    /// The part still holds a message of an earlier key's holder.
    stale: bool,
    stall_timeout: Duration,
    /// The packet count of a message that is not whole, and since when it has not changed.
    partial: Mutex<Option<(u32, Instant)>>,
}

/// The receivers of a slot.
#[derive(Debug)]
struct Group {
    place: Place,
    /// For each entry, the metadata of the message that has come.
    arrived: Mutex<Vec<Option<[u8; 60]>>>,
    tokens: Mutex<Vec<Option<u64>>>,
}

impl DatagramReceiver {
    /// Creates a receiver for messages of up to `capacity` bytes; it is ready.
    ///
    /// # Errors
    /// Those of [`DatagramReceiver::create_group`].
    pub fn create(manager: &Manager, capacity: usize) -> Result<Self> {
        Self::create_group(manager, 1, capacity)?.pop().ok_or(Error::OutOfRange {
            object: "receivers",
            value: 0,
            limit: MAX_GROUP.into(),
        })
    }

    /// Creates `count` receivers that share a slot; each has an entry, a key and `capacity` bytes
    /// of its own. All are ready.
    ///
    /// # Errors
    /// Those of [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the manager
    /// takes another notification queue for them, [`crate::Card::create_queue`].
    pub fn create_group(manager: &Manager, count: u32, capacity: usize) -> Result<Vec<Self>> {
        at_most("receivers", count.into(), MAX_GROUP.into())?;
        if count == 0 {
            return Ok(Vec::new());
        }
        Self::group_in(manager, Place::create(manager, count, capacity)?)
    }

    /// Like [`DatagramReceiver::create_group`], in an area of the caller's ([`crate::Card::lend`],
    /// or a [`crate::Card::create_area`]'s): each gets as many of its bytes, in their order. What
    /// is left at its end is nobody's. Once all are dropped, the area can be taken back.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an area with fewer bytes than receivers; those of
    /// [`crate::SlotBuilder::create`] and [`crate::Card::create_queue`].
    pub fn create_in(manager: &Manager, area: &MessageArea, count: u32) -> Result<Vec<Self>> {
        at_most("receivers", count.into(), MAX_GROUP.into())?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let capacity = area.len() / count as usize;
        if capacity == 0 {
            return Err(Error::Invalid("the area has fewer bytes than receivers"));
        }
        Self::group_in(manager, Place::create_in(manager, area, count, capacity)?)
    }

    fn group_in(manager: &Manager, mut place: Place) -> Result<Vec<Self>> {
        let count = place.entries();
        let arrived = Mutex::new(vec![None; count as usize]);
        let group = Arc::new_cyclic(|group: &Weak<Group>| {
            place.open_for(group.clone());
            Group { place, arrived, tokens: Mutex::new(vec![None; count as usize]) }
        });
        // Nobody has a ticket yet, so the keys change without waiting for the card.
        for entry in 1..count {
            let metadata = group.place.slot().metadata(entry)?;
            metadata.open(random_key()?, metadata.opens());
        }
        let receiver = |entry| Self {
            group: group.clone(),
            manager: manager.clone(),
            entry,
            stale: false,
            stall_timeout: STALLED,
            partial: Mutex::default(),
        };
        Ok((0..count).map(receiver).collect())
    }

    /// The ticket that senders need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.group.place.ticket(self.entry)
    }

    /// How long packets of a message may stand alone before [`Error::Incomplete`]: 10 s if this is
    /// not called.
    pub fn set_stall_timeout(&mut self, timeout: Duration) {
        self.stall_timeout = timeout;
    }

    /// Whether packets of a message have arrived, and not all of them. A message that is arriving
    /// right now is partial, too.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.group.place.partial(self.entry) != 0
    }

    /// From now on [`Manager::ready`] names this token when a message has come.
    pub fn set_token(&mut self, token: u64) {
        self.group.tokens()[self.entry as usize] = Some(token);
    }

    /// Whether it takes a message now: nothing has come since it was made or re-armed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.group.place.is_locked(self.entry)
    }

    /// The message, if it has come: the same one until [`DatagramReceiver::rearm`].
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if none has; [`Error::Malformed`] if it is no datagram;
    /// [`Error::Overrun`]; [`Error::Incomplete`], as [`DatagramReceiver::receive`].
    pub fn try_receive(&self) -> Result<Datagram<'_>> {
        if self.group.arrived()[self.entry as usize].is_none() {
            self.manager.poll_all()?;
        }
        match self.arrived(true)? {
            Look::Break(datagram) => Ok(datagram),
            Look::Continue(_) => Err(Error::WouldBlock { object: "receivers", limit: 1 }),
        }
    }

    /// The message; waits for it: looks at memory for a while, then sleeps. `None` waits for ever.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::Malformed`], [`Error::Overrun`], [`Error::System`].
    /// [`Error::Incomplete`] if packets of a message have arrived, and no other for 10 s
    /// ([`DatagramReceiver::set_stall_timeout`]): call [`DatagramReceiver::revoke`] or
    /// [`DatagramReceiver::forget`], or wait on if the sender is slow.
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Datagram<'_>> {
        self.manager.wait_for("datagram", timeout, |sleeps| self.arrived(sleeps))
    }

    /// Makes it ready for the next message.
    pub fn rearm(&mut self) {
        if self.group.arrived()[self.entry as usize].is_none() {
            return;
        }
        if std::mem::take(&mut self.stale) {
            self.group.place.clear(self.entry);
        }
        let mut arrived = self.group.arrived();
        // In this order: what the card notifies of from now on is the next message's.
        arrived[self.entry as usize] = None;
        self.group.place.reopen(self.entry);
    }

    /// Gives up a message that is not whole. The receiver is ready again, and its tickets stay
    /// valid: packets that the sender of that message still sends count to the next one.
    /// [`DatagramReceiver::revoke`] keeps them out.
    ///
    /// # Errors
    /// [`Error::System`] if the card cannot be reached: then the receiver takes nothing. Call it
    /// again.
    pub fn forget(&mut self) -> Result<()> {
        let key = self.group.place.slot().metadata(self.entry)?.key();
        self.group.place.protect(self.entry, key)
    }

    /// Gives it a new key: tickets that were handed out are void, and nobody else's are (section
    /// 2.7). A message that has come stays until [`DatagramReceiver::rearm`]; one that came
    /// silently, so that nobody was told, is forgotten, and so is one that is not whole. Then the
    /// buffer is zeroed: no message by a new ticket has bytes of an earlier ticket's holder.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel has no random key to give: then nothing changes.
    /// [`Error::System`] or [`Error::Overrun`] behind that: the old tickets are void, but the place
    /// may not be ready. Call it again.
    pub fn revoke(&mut self) -> Result<()> {
        let key = random_key()?;
        self.stale = true;
        self.group.place.protect(self.entry, key)?;
        self.manager.poll_all()?;
        if self.group.arrived()[self.entry as usize].is_none() {
            // The new key is nobody's before this returns.
            self.group.place.clear(self.entry);
            self.group.place.reopen(self.entry);
            self.stale = false;
        }
        Ok(())
    }

    /// The message, or how long to wait for it. `thorough`: also looks whether one is lost
    /// half-way.
    fn arrived(&self, thorough: bool) -> Result<Look<Datagram<'_>>> {
        match self.group.arrived()[self.entry as usize] {
            Some(bytes) => self.read(&bytes).map(Look::Break),
            None if thorough => self.stalled(),
            None => Ok(Look::Continue(Pause::default())),
        }
    }

    /// How long to wait before a message that is not whole counts as lost.
    fn stalled(&self) -> Result<Look<Datagram<'_>>> {
        let count = self.group.place.partial(self.entry);
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.stall_timeout;
        let since = match *partial {
            _ if count == 0 => {
                *partial = None;
                // The first packets of a message wake nobody.
                return Ok(Look::Continue(Pause { limit: Some(limit.max(SHORTEST)), for_card: false }));
            }
            Some((last, since)) if last == count => since.elapsed(),
            _ => {
                *partial = Some((count, Instant::now()));
                Duration::ZERO
            }
        };
        match limit.checked_sub(since).filter(|left| !left.is_zero()) {
            Some(left) => Ok(Look::Continue(Pause { limit: Some(left), for_card: false })),
            None => Err(Error::Incomplete { what: "datagram", after: limit }),
        }
    }

    /// The message that this metadata tells of. Its sender has written it.
    fn read(&self, metadata: &[u8; 60]) -> Result<Datagram<'_>> {
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| metadata[at + byte]));
        let (place, offset, length) = (&self.group.place, word(4) as usize, word(8) as usize);
        if metadata[..4] != MAGIC || offset.saturating_add(length) > place.length() {
            return Err(Error::Malformed("no datagram"));
        }
        let ticket = &metadata[HEAD..METADATA];
        let reply = match Ticket::from_bytes(ticket) {
            Ok(ticket) => Some(ticket),
            Err(_) if ticket.iter().all(|byte| *byte == 0) => None,
            Err(_) => return Err(Error::Malformed("a datagram with a reply ticket that cannot be read")),
        };
        let landed = Landed::new(Cow::Borrowed(place.area()), place.start(self.entry) + offset, length)?;
        Ok(Datagram { landed, offset, reply })
    }
}

impl Drop for DatagramReceiver {
    fn drop(&mut self) {
        // The slot stays while others of the group do. A packet that was judged before may still be
        // written.
        if let Ok(metadata) = self.group.place.slot().metadata(self.entry) {
            metadata.close();
            let _ = self.manager.card().settle();
        }
    }
}

impl Group {
    fn tokens(&self) -> MutexGuard<'_, Vec<Option<u64>>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self) -> MutexGuard<'_, Vec<Option<[u8; 60]>>> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiverClass for Group {
    fn process_arrival(&self, arrival: &Arrived<'_>, ready: &mut Ready) {
        let mut arrived = self.arrived();
        if let Some((entry, metadata)) = self.place.arrived(arrival) {
            // One that is ready has had none: this message was found without its notification, and
            // dealt with.
            if self.place.is_locked(entry) {
                arrived[entry as usize] = Some(metadata);
                ready.add(self.tokens()[entry as usize]);
            }
        }
    }

    /// What is locked has had its message, whether anybody was told or not.
    fn arrivals_lost(&self, ready: &mut Ready) {
        for (entry, arrived) in self.arrived().iter_mut().enumerate() {
            let Ok(metadata) = self.place.slot().metadata(entry as u32) else { continue };
            if arrived.is_none() && metadata.is_locked() {
                // Its notification may still be in the queue.
                *arrived = Some(metadata.user());
                ready.add(self.tokens()[entry]);
            }
        }
    }
}

/// A message that has come, where it was deposited.
#[derive(Debug)]
pub struct Datagram<'a> {
    landed: Landed<'a>,
    offset: usize,
    reply: Option<Ticket>,
}

landed!(Datagram);

impl Datagram<'_> {
    /// Where in the receiver's buffer it starts, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The ticket that it brought for a reply.
    #[must_use]
    pub fn reply(&self) -> Option<Ticket> {
        self.reply
    }
}
