//! Simple datagrams.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::time::Duration;

use hamlyn::protocol::datagram::{DatagramReceiver, DatagramSender};

use crate::call::{call, free, given, retry, store, wait};
use crate::manager::{Way, hamlyn_manager};
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

/// Creates a receiver for datagrams of up to `capacity` bytes. It is ready for one datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_receiver_create(
    manager: Option<&hamlyn_manager>,
    capacity: usize,
    receiver: Option<&mut MaybeUninit<Box<hamlyn_datagram_receiver>>>,
) -> c_int {
    call(|| {
        let to = given(receiver, "receiver")?;
        let receiver = DatagramReceiver::create(&given(manager, "manager")?.manager, capacity)?;
        store(to, Box::new(hamlyn_datagram_receiver(receiver)))
    })
}

/// Creates `count` receivers for datagrams of up to `capacity` bytes each, and stores them in an
/// array. They share only a slot. Each is ready, has its own key, and is destroyed separately.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_group_create(
    manager: Option<&hamlyn_manager>,
    capacity: usize,
    receivers: *mut *mut hamlyn_datagram_receiver,
    count: usize,
) -> c_int {
    call(|| {
        let to = items_mut(receivers, count, "receivers")?;
        let number = u32::try_from(count).unwrap_or(u32::MAX);
        let group = DatagramReceiver::create_group(&given(manager, "manager")?.manager, number, capacity)?;
        for (to, receiver) in to.iter_mut().zip(group) {
            to.write(Box::into_raw(Box::new(hamlyn_datagram_receiver(receiver))));
        }
        Ok(0)
    })
}

/// Sets the token that hamlyn_manager_ready reports for a receiver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_set_token(
    receiver: Option<&mut hamlyn_datagram_receiver>,
    token: u64,
) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.set_token(token);
        Ok(0)
    })
}

/// Releases a receiver and its buffer. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_receiver_destroy(receiver: Option<Box<hamlyn_datagram_receiver>>) {
    free(receiver);
}

/// Stores the ticket that senders need.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_receiver_ticket(
    receiver: Option<&hamlyn_datagram_receiver>,
    ticket: Option<&mut MaybeUninit<hamlyn_ticket>>,
) -> c_int {
    call(|| {
        let to = given(ticket, "ticket")?;
        store(to, hamlyn_ticket::new(&given(receiver, "receiver")?.0.ticket()?))
    })
}

/// Stores the received datagram: the same one until the receiver is re-armed. Fails with -ENODATA
/// if a datagram is incomplete and no further packet has arrived for 10 s
/// (hamlyn_datagram_set_stall_timeout): its sender failed half-way. hamlyn_datagram_revoke or
/// hamlyn_datagram_forget makes the receiver ready again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_receive(
    receiver: Option<&hamlyn_datagram_receiver>,
    datagram: Option<&mut MaybeUninit<hamlyn_datagram>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let (receiver, to) = (&given(receiver, "receiver")?.0, given(datagram, "datagram")?);
        let came = wait(timeout_ms, || receiver.try_receive(), |timeout| receiver.receive(timeout))?;
        let reply = came.reply();
        let datagram = hamlyn_datagram {
            data: came.as_ptr().cast(),
            length: came.len(),
            offset: came.offset(),
            has_reply: reply.is_some().into(),
            reply: reply.map_or(hamlyn_ticket { bytes: [0; HAMLYN_TICKET_SIZE] }, |ticket| {
                hamlyn_ticket::new(&ticket)
            }),
            reserved: [0; 4],
        };
        store(to, datagram)
    })
}

/// Makes a receiver ready for the next datagram. The memory that the last datagram's `data` points
/// to may change from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_rearm(receiver: Option<&mut hamlyn_datagram_receiver>) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.rearm();
        Ok(0)
    })
}

/// Returns 1 if some but not all packets of a datagram have arrived, else 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_is_partial(receiver: Option<&hamlyn_datagram_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.is_partial().into()))
}

/// Discards an incomplete datagram. The tickets stay valid: packets that its sender still sends
/// count toward the next datagram.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_forget(receiver: Option<&mut hamlyn_datagram_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.forget().map(|()| 0)?))
}

/// Sets how long a datagram may stay incomplete, with no further packet, before
/// hamlyn_datagram_receive returns -ENODATA. The initial value is 10000.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_set_stall_timeout(
    receiver: Option<&mut hamlyn_datagram_receiver>,
    timeout_ms: u32,
) -> c_int {
    call(|| {
        given(receiver, "receiver")?.0.set_stall_timeout(Duration::from_millis(timeout_ms.into()));
        Ok(0)
    })
}

/// Gives a receiver a new key, which invalidates its existing tickets. A datagram that has arrived
/// stays until hamlyn_datagram_rearm. An incomplete one is discarded, and the buffer is zeroed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_revoke(receiver: Option<&mut hamlyn_datagram_receiver>) -> c_int {
    call(|| Ok(given(receiver, "receiver")?.0.revoke().map(|()| 0)?))
}

/// Sends a datagram to `offset` bytes into a receiver's buffer, with a ticket for a reply or NULL.
/// The data may be changed when this returns. Waits while the card has no room. Success does not
/// mean delivery: a receiver that is not ready refuses the datagram, and the sender is not
/// notified.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hamlyn_datagram_send(
    manager: Option<&hamlyn_manager>,
    ticket: Option<&hamlyn_ticket>,
    data: *const c_void,
    length: usize,
    offset: u32,
    reply: Option<&hamlyn_ticket>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let manager = given(manager, "manager")?;
        let to = manager.sending().read(given(ticket, "ticket")?)?;
        let reply = reply.map(hamlyn_ticket::read).transpose()?;
        let data = bytes(data, length, "data")?;
        let sender = DatagramSender::new(&manager.manager);
        let way = retry(manager.manager.terminus(), timeout_ms, || {
            if length <= DatagramSender::MAX_DIRECT {
                return Ok(Way::Bytes(sender.try_send(&to, data, offset, reply.as_ref())?));
            }
            let mut buffer = manager.manager.allocate(length)?;
            buffer.write(0, data)?;
            Ok(Way::Buffer(sender.try_send_buffer(&to, buffer, offset, reply.as_ref())?))
        })?;
        manager.sending().add(way);
        Ok(0)
    })
}
