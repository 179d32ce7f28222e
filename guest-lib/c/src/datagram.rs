//! Simple datagrams.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};

use crate::call::{retry, waited};
use crate::exported::{Out, exported};
use crate::manager::{Posted, hamlyn_manager};
use crate::memory::{bytes, items_mut};
use crate::ticket::{HAMLYN_TICKET_SIZE, hamlyn_ticket};

/// Receives one datagram at a time: the next one is refused until hamlyn_datagram_rearm. One thread
/// at a time may use it.
pub struct hamlyn_datagram_receiver(pub(crate) DatagramReceiver);

/// A received datagram.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_datagram {
    /// The bytes, where the card put them. Valid until the receiver is re-armed or destroyed.
    pub data: *const c_void,
    /// Number of bytes.
    pub length: usize,
    /// Offset of the bytes in the receiver's buffer.
    pub offset: usize,
    /// 1 if the datagram has a ticket for a reply, else 0.
    pub has_reply: c_int,
    /// That ticket.
    pub reply: hamlyn_ticket,
    /// Reserved for future use: zeros.
    pub reserved: [u32; 4],
}

exported! {
/// Creates a receiver for datagrams of up to `capacity` bytes. It is ready for one datagram.
fn hamlyn_datagram_receiver_create(
    manager: &hamlyn_manager,
    capacity: usize,
    receiver: Out<Box<hamlyn_datagram_receiver>>,
) {
    receiver.store(hamlyn_datagram_receiver(DatagramReceiver::create(&manager.manager, capacity)?))
}

/// Creates `count` receivers for datagrams of up to `capacity` bytes each, and stores them in an
/// array. They share only a slot. Each is ready, has its own key, and is destroyed separately.
fn hamlyn_datagram_group_create(
    manager: &hamlyn_manager,
    capacity: usize,
    receivers: *mut *mut hamlyn_datagram_receiver,
    count: usize,
) {
    let to = items_mut(receivers, count, "receivers")?;
    let number = u32::try_from(count).unwrap_or(u32::MAX);
    let group = DatagramReceiver::create_group(&manager.manager, number, capacity)?;
    for (to, receiver) in to.iter_mut().zip(group) {
        to.write(Box::into_raw(Box::new(hamlyn_datagram_receiver(receiver))));
    }
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
fn hamlyn_datagram_set_token(receiver: &mut hamlyn_datagram_receiver, token: u64) {
    receiver.0.set_token(token);
}

/// Releases a receiver and its buffer. NULL is a no-op.
fn hamlyn_datagram_receiver_destroy(receiver: Box<hamlyn_datagram_receiver>);

/// Stores the ticket that senders need.
fn hamlyn_datagram_receiver_ticket(receiver: &hamlyn_datagram_receiver, ticket: Out<hamlyn_ticket>) {
    ticket.store(hamlyn_ticket::new(&receiver.0.ticket()?))
}

/// Stores the received datagram: the same one until the receiver is re-armed. Fails with -ENODATA
/// if a datagram is incomplete and no further packet has arrived for 10 s
/// (hamlyn_datagram_set_stall_timeout): its sender failed half-way. hamlyn_datagram_revoke or
/// hamlyn_datagram_forget makes the receiver ready again.
fn hamlyn_datagram_receive(
    receiver: &hamlyn_datagram_receiver,
    datagram: Out<hamlyn_datagram>,
    timeout_ms: c_int,
) {
    let came = waited!(timeout_ms, receiver.0 => try_recv / recv / recv_timeout())?;
    let reply = came.reply();
    datagram.store(hamlyn_datagram {
        data: came.as_ptr().cast(),
        length: came.len(),
        offset: came.offset(),
        has_reply: reply.is_some().into(),
        reply: reply
            .map_or(hamlyn_ticket { bytes: [0; HAMLYN_TICKET_SIZE] }, |ticket| hamlyn_ticket::new(&ticket)),
        reserved: [0; 4],
    })
}

/// Makes a receiver ready for the next datagram. The memory that the last datagram's `data` points
/// to may change from now on.
fn hamlyn_datagram_rearm(receiver: &mut hamlyn_datagram_receiver) {
    receiver.0.rearm();
}

/// Returns 1 if some but not all packets of a datagram have arrived, else 0.
fn hamlyn_datagram_is_partial(receiver: &hamlyn_datagram_receiver) {
    receiver.0.is_partial()
}

/// Discards an incomplete datagram. The tickets stay valid: packets that its sender still sends
/// count toward the next datagram.
fn hamlyn_datagram_forget(receiver: &mut hamlyn_datagram_receiver) {
    receiver.0.forget()?
}

/// Sets how long a datagram may stay incomplete, with no further packet, before
/// hamlyn_datagram_receive returns -ENODATA. The initial value is 10000.
fn hamlyn_datagram_set_stall_timeout(receiver: &mut hamlyn_datagram_receiver, timeout_ms: u32) {
    receiver.0.set_stall_timeout(Duration::from_millis(timeout_ms.into()));
}

/// Gives a receiver a new key, which invalidates its existing tickets. A datagram that has arrived
/// stays until hamlyn_datagram_rearm. An incomplete one is discarded, and the buffer is zeroed.
fn hamlyn_datagram_revoke(receiver: &mut hamlyn_datagram_receiver) {
    receiver.0.revoke()?
}

/// Sends a datagram to `offset` bytes into a receiver's buffer, with a ticket for a reply or NULL.
/// The data may be changed when this returns. Waits while the card has no room. Success does not
/// mean delivery: a receiver that is not ready refuses the datagram, and the sender is not
/// notified.
fn hamlyn_datagram_send(
    manager: &hamlyn_manager,
    ticket: &hamlyn_ticket,
    data: *const c_void,
    length: usize,
    offset: u32,
    reply: Option<&hamlyn_ticket>,
    timeout_ms: c_int,
) {
    let to = manager.sending().read(ticket)?;
    let reply = reply.map(hamlyn_ticket::read).transpose()?;
    let data = bytes(data, length, "data")?;
    let sender = DatagramSender::new(&manager.manager);
    let way = retry(manager.manager.terminus(), timeout_ms, || {
        if length <= DatagramSender::MAX_DIRECT {
            return Ok(Posted::Bytes(sender.try_send(&to, data, offset, reply.as_ref())?));
        }
        let mut buffer = manager.manager.allocate(length)?;
        buffer.write(0, data)?;
        Ok(Posted::Buffer(sender.try_send_buffer(&to, buffer, offset, reply.as_ref())?))
    })?;
    manager.sending().add(way);
}
}
