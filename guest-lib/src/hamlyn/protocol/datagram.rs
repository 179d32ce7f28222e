//! Simple datagram (section 3.3): the card's own semantics, plus an offset, a length and optionally
//! a reply ticket.
//!
//! A receiver either is *ready* for one message or is not. There is no queue and no flow control.
//! The receiver's card refuses a message to a receiver that is not ready, and counts it
//! (`refused_one_shot`); the sender is not notified. So the sender must know by other means that
//! the receiver is ready. For example, a reply to a request is known to be expected.
//!
//! A message counts as sent once the sender's card has put it on the link. If the sender dies in
//! the middle of a message, its card takes the message back. If that card or the switch itself is
//! lost, the receiver has only some packets, and no later message of several packets completes.
//! [`DatagramReceiver::recv`] then fails with [`Error::Incomplete`].
//! [`DatagramReceiver::revoke`] or [`DatagramReceiver::forget`] makes the receiver ready again.
//!
//! A message is deposited in the receiver's memory and does not change until
//! [`DatagramReceiver::rearm`]. The borrow checker ensures that no [`Datagram`] is held then.
//!
//! ```no_run
//! use hamlyn::Manager;
//! use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};
//!
//! # fn example(peer: hamlyn::Ticket) -> hamlyn::Result<()> {
//! let manager = Manager::create(&hamlyn::Card::open_default()?)?;
//! let mut replies = DatagramReceiver::create(&manager, 4096)?;
//! DatagramSender::new(&manager).send(&peer, b"question", 0, Some(&replies.ticket()?))?;
//! println!("{:?}", replies.recv()?.to_vec());
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

/// Magic number at the start of the metadata; the digit is the version.
const MAGIC: [u8; 4] = *b"HDG1";
/// Size of the metadata's head: magic number, offset, length.
const HEAD: usize = 12;
/// Size of the metadata: the head, and a reply ticket or zeros.
const METADATA: usize = HEAD + Ticket::SIZE;
/// How long a message may stay partial without progress before the receiver considers the rest
/// lost.
const STALLED: Duration = Duration::from_secs(10);
/// Minimum interval at which a waiting receiver checks for such messages.
const SHORTEST: Duration = Duration::from_millis(100);
/// Maximum number of receivers in a group.
const MAX_GROUP: u32 = 65536;

/// The sending end, for the tickets of any [`DatagramReceiver`].
#[derive(Debug, Clone)]
pub struct DatagramSender {
    manager: Manager,
}

impl DatagramSender {
    /// Maximum number of bytes that are sent from the caller's memory, by direct I/O. Longer
    /// messages must be in a [`Buffer`].
    pub const MAX_DIRECT: usize = 392;

    /// Creates a sender that uses the manager's terminus.
    #[must_use]
    pub fn new(manager: &Manager) -> Self {
        Self { manager: manager.clone() }
    }

    /// Writes a message `offset` bytes into the ticket's buffer. Tells the receiver where the
    /// message is, and how to reply. If all work-queue entries are in use, it waits.
    ///
    /// # Errors
    /// The errors of [`crate::Terminus::send`]; [`Error::Invalid`] for a fast-mode ticket.
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
    /// [`Error::WouldBlock`], and the errors of [`DatagramSender::send`].
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
    /// The errors of [`DatagramSender::send`]. On error the buffer is given back.
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
    /// [`Error::WouldBlock`], and the errors of [`DatagramSender::send_buffer`]. On error the
    /// buffer is given back.
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
    /// Like [`DatagramSender::send`], for a part of a buffer, which is only borrowed. The card
    /// gathers from these bytes until the handle reports completion, and they cannot be written
    /// before that. So one buffer can be sent to several peers.
    ///
    /// # Errors
    /// The errors of [`DatagramSender::send`]; [`Error::PastEnd`] if the part is not inside the
    /// buffer.
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
    /// [`Error::WouldBlock`], and the errors of [`DatagramSender::send_from`].
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

/// Sends a whole buffer.
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
/// Any thread may use it. After it is dropped, it accepts no more messages.
#[derive(Debug)]
pub struct DatagramReceiver {
    group: Arc<Group>,
    manager: Manager,
    entry: u32,
    /// The part still contains a message from the holder of an earlier key.
    stale: bool,
    stall_timeout: Duration,
    /// The packet count of an incomplete message, and since when it has not changed.
    partial: Mutex<Option<(u32, Instant)>>,
}

/// The receivers that share a slot.
#[derive(Debug)]
struct Group {
    place: Place,
    /// For each entry, the metadata of the message that has arrived.
    arrived: Mutex<Vec<Option<[u8; 60]>>>,
    tokens: Mutex<Vec<Option<u64>>>,
}

impl DatagramReceiver {
    /// Creates a receiver for messages of up to `capacity` bytes. It is ready.
    ///
    /// # Errors
    /// The errors of [`DatagramReceiver::create_group`].
    pub fn create(manager: &Manager, capacity: usize) -> Result<Self> {
        Self::create_group(manager, 1, capacity)?.pop().ok_or(Error::OutOfRange {
            object: "receivers",
            value: 0,
            limit: MAX_GROUP.into(),
        })
    }

    /// Creates `count` receivers that share a slot. Each has its own entry, key and `capacity`
    /// bytes. All are ready.
    ///
    /// # Errors
    /// The errors of [`crate::Card::create_area`], [`crate::SlotBuilder::create`] and, if the
    /// manager needs another notification queue for them, [`crate::Card::create_queue`].
    pub fn create_group(manager: &Manager, count: u32, capacity: usize) -> Result<Vec<Self>> {
        at_most("receivers", count.into(), MAX_GROUP.into())?;
        if count == 0 {
            return Ok(Vec::new());
        }
        Self::group_in(manager, Place::create(manager, count, capacity)?)
    }

    /// Like [`DatagramReceiver::create_group`], in an area of the caller ([`crate::Card::lend`] or
    /// [`crate::Card::create_area`]). Each receiver gets the same number of its bytes, in order.
    /// The remaining bytes at the end are unused. Once all receivers are dropped, the area can be
    /// taken back.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the area has fewer bytes than receivers; the errors of
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
        // No ticket has been given out yet, so the keys change without waiting for the card.
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

    /// Returns the ticket that senders need.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn ticket(&self) -> Result<Ticket> {
        self.group.place.ticket(self.entry)
    }

    /// Sets how long a message may stay partial without progress before [`Error::Incomplete`]. The
    /// default is 10 s.
    pub fn set_stall_timeout(&mut self, timeout: Duration) {
        self.stall_timeout = timeout;
    }

    /// Returns true if some but not all packets of a message have arrived. This includes a message
    /// that is arriving right now.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.group.place.partial(self.entry) != 0
    }

    /// Sets the token that [`Manager::ready`] returns when a message has arrived.
    pub fn set_token(&mut self, token: u64) {
        self.group.tokens()[self.entry as usize] = Some(token);
    }

    /// Returns true if the receiver accepts a message now: none has arrived since it was created or
    /// re-armed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.group.place.is_locked(self.entry)
    }

    /// Returns the message if it has arrived. Returns the same one until
    /// [`DatagramReceiver::rearm`].
    ///
    /// # Errors
    /// [`Error::WouldBlock`] if none has arrived; [`Error::Malformed`] if it is not a datagram;
    /// [`crate::OverrunError`]; [`Error::Incomplete`], as for [`DatagramReceiver::recv`].
    pub fn try_recv(&self) -> Result<Datagram<'_>> {
        if self.group.arrived()[self.entry as usize].is_none() {
            self.manager.poll_all()?;
        }
        match self.arrived(true)? {
            Look::Break(datagram) => Ok(datagram),
            Look::Continue(_) => Err(Error::WouldBlock { object: "receivers", limit: 1 }),
        }
    }

    /// Waits for the message and returns it. Busy-polls for a while, then sleeps.
    ///
    /// # Errors
    /// [`Error::Malformed`], [`crate::OverrunError`], [`Error::System`]. [`Error::Incomplete`] if
    /// some packets of a message have arrived, and no other for 10 s
    /// ([`DatagramReceiver::set_stall_timeout`]). Then call [`DatagramReceiver::revoke`] or
    /// [`DatagramReceiver::forget`], or continue to wait if the sender is slow.
    pub fn recv(&self) -> Result<Datagram<'_>> {
        self.manager.wait_for("datagram", None, |sleeps| self.arrived(sleeps))
    }

    /// As [`DatagramReceiver::recv`], but blocks for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; those of [`DatagramReceiver::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Datagram<'_>> {
        self.manager.wait_for("datagram", Some(timeout), |sleeps| self.arrived(sleeps))
    }

    /// Makes the receiver ready for the next message.
    pub fn rearm(&mut self) {
        if self.group.arrived()[self.entry as usize].is_none() {
            return;
        }
        if std::mem::take(&mut self.stale) {
            self.group.place.clear(self.entry);
        }
        let mut arrived = self.group.arrived();
        // In this order: from now on, notifications from the card are for the next message.
        arrived[self.entry as usize] = None;
        self.group.place.reopen(self.entry);
    }

    /// Discards an incomplete message. The receiver is ready again, and its tickets stay valid:
    /// packets that the sender of that message still sends count towards the next one.
    /// [`DatagramReceiver::revoke`] keeps such packets out.
    ///
    /// # Errors
    /// [`Error::System`] if the card cannot be reached. The receiver then accepts nothing; call
    /// this again.
    pub fn forget(&mut self) -> Result<()> {
        let key = self.group.place.slot().metadata(self.entry)?.key();
        self.group.place.protect(self.entry, key)
    }

    /// Changes the receiver's key. This revokes the tickets that were given out, and no other
    /// receiver's (section 2.7). A message that has arrived stays until
    /// [`DatagramReceiver::rearm`]. A silent message, which caused no notification, is discarded,
    /// and so is an incomplete one. Then the buffer is zeroed: no message with a new ticket
    /// contains bytes from an earlier ticket's holder.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel cannot provide a random key; then nothing changes.
    /// [`Error::System`] or [`crate::OverrunError`] after that point: the old tickets are void, but
    /// the receiver may not be ready. Call this again.
    pub fn revoke(&mut self) -> Result<()> {
        let key = random_key()?;
        self.stale = true;
        self.group.place.protect(self.entry, key)?;
        self.manager.poll_all()?;
        if self.group.arrived()[self.entry as usize].is_none() {
            // The new key is not known to any sender before this returns.
            self.group.place.clear(self.entry);
            self.group.place.reopen(self.entry);
            self.stale = false;
        }
        Ok(())
    }

    /// Returns the message, or how long to wait for it. If `thorough`, also checks for a message
    /// that was lost half-way.
    fn arrived(&self, thorough: bool) -> Result<Look<Datagram<'_>>> {
        match self.group.arrived()[self.entry as usize] {
            Some(bytes) => self.read(&bytes).map(Look::Break),
            None if thorough => self.stalled(),
            None => Ok(Look::Continue(Pause::default())),
        }
    }

    /// Returns how long to wait before an incomplete message counts as lost.
    fn stalled(&self) -> Result<Look<Datagram<'_>>> {
        let count = self.group.place.partial(self.entry);
        let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = self.stall_timeout;
        let since = match *partial {
            _ if count == 0 => {
                *partial = None;
                // The first packets of a message cause no wake-up.
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

    /// Returns the message that this metadata describes. The metadata comes from the sender and is
    /// validated.
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
        // The slot stays while other receivers of the group exist. A packet that was checked before
        // the close may still be written.
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
            // A ready receiver has no message: this message was found without its notification, and
            // has been processed.
            if self.place.is_locked(entry) {
                arrived[entry as usize] = Some(metadata);
                ready.add(self.tokens()[entry as usize]);
            }
        }
    }

    /// A locked entry has received its message, whether or not it was notified.
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

/// A message that has arrived, in place.
#[derive(Debug)]
pub struct Datagram<'a> {
    landed: Landed<'a>,
    offset: usize,
    reply: Option<Ticket>,
}

landed!(Datagram);

impl Datagram<'_> {
    /// Returns the offset of the message in the receiver's buffer, in bytes.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the ticket for a reply, if the message contains one.
    #[must_use]
    pub fn reply(&self) -> Option<Ticket> {
        self.reply
    }
}
