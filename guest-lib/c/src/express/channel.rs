//! Channels by name.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::Polling;
use hamlyn::express::{Channel, ChannelListener, ChannelOptions};

use crate::call::{Failure, at_once, timeout, unused};
use crate::exported::{Out, exported};
use crate::express::{hamlyn_channel_receiver, hamlyn_channel_sender};
use crate::manager::hamlyn_manager;
use crate::polling::polling;

/// A name under which other processes open channels to this one. Any number of threads may use it
/// at once.
pub struct hamlyn_channel_listener {
    listener: ChannelListener,
    polling: Polling,
}

/// Options for a channel's end; 0 in a field selects the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct hamlyn_channel_options {
    /// Size in bytes of the ring that this end receives in, in whole pages; 61440 by default. The
    /// longest message to this end is 8 bytes shorter. The ring uses one more page of the memory
    /// that the two hosts share.
    pub capacity: u64,
    /// Microseconds for which a waiting call polls memory before it sleeps, at most; 1000 by
    /// default. ULN_NO_POLLING disables polling. A channel by card messages polls as its manager
    /// does.
    pub polling_us: u32,
    /// HAMLYN_CHANNEL_BY_MESSAGES, or 0.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// For hamlyn_channel_options.flags: uses card messages even if there is express memory.
pub const HAMLYN_CHANNEL_BY_MESSAGES: u32 = 1;

exported! {
/// Registers a name, of 1 to 64 bytes, under which processes of other hosts open channels to this
/// one. The options, which may be NULL, apply to the ends of this side.
fn hamlyn_channel_listen(
    manager: &hamlyn_manager,
    name: &str,
    options: Option<&hamlyn_channel_options>,
    listener: Out<Box<hamlyn_channel_listener>>,
) {
    let (chosen, polling) = read_options(options)?;
    let bound = ChannelListener::bind(&manager.manager, name, chosen)?;
    listener.store(hamlyn_channel_listener { listener: bound, polling })
}

/// Releases the name. NULL is a no-op.
fn hamlyn_channel_listener_destroy(listener: Box<hamlyn_channel_listener>);

/// Returns a file descriptor, owned by the library: readable while a request is pending.
fn hamlyn_channel_listener_fd(listener: &hamlyn_channel_listener) {
    listener.listener.as_fd().as_raw_fd()
}

/// Accepts the next request, and stores both ends of a channel. Different threads may use the two
/// ends. If the peer dies, calls on them fail after all arrived data has been received: with
/// -ECONNRESET (its process), -EHOSTDOWN (its host) or -ENETDOWN (the network path). If there are
/// too few pages (-ENOSPC, -EDQUOT), the requester is notified, and the listener can accept further
/// requests.
fn hamlyn_channel_accept(
    listener: &hamlyn_channel_listener,
    sender: Out<Box<hamlyn_channel_sender>>,
    receiver: Out<Box<hamlyn_channel_receiver>>,
    timeout_ms: c_int,
) {
    let channel = at_once(timeout_ms, listener.listener.accept(timeout(timeout_ms)))?;
    store_both((sender, receiver), channel, listener.polling)
}

/// Connects to a name on a host, and stores both ends, like hamlyn_channel_accept. Fails with
/// -ECONNREFUSED if the name has no listener there, and with -EHOSTUNREACH if there is no such
/// host. If the two hosts have no express memory, the channel uses card messages; see
/// hamlyn_channel_is_express. The options may be NULL.
fn hamlyn_channel_connect(
    manager: &hamlyn_manager,
    host: u32,
    name: &str,
    options: Option<&hamlyn_channel_options>,
    sender: Out<Box<hamlyn_channel_sender>>,
    receiver: Out<Box<hamlyn_channel_receiver>>,
    timeout_ms: c_int,
) {
    let manager = &manager.manager;
    let (chosen, polling) = read_options(options)?;
    let channel = Channel::connect(manager, host, name, chosen, timeout(timeout_ms));
    store_both((sender, receiver), at_once(timeout_ms, channel)?, polling)
}
}

type Places<'a> = (Out<'a, Box<hamlyn_channel_sender>>, Out<'a, Box<hamlyn_channel_receiver>>);

fn store_both((sender, receiver): Places<'_>, channel: Channel, polling: Polling) {
    let mut channel = channel;
    channel.sender.set_polling(polling);
    channel.receiver.set_polling(polling);
    sender.store(hamlyn_channel_sender(channel.sender));
    receiver.store(hamlyn_channel_receiver(channel.receiver));
}

/// Returns the options, and how long the ends poll.
fn read_options(options: Option<&hamlyn_channel_options>) -> Result<(ChannelOptions, Polling), Failure> {
    let mut chosen = ChannelOptions::default();
    let Some(options) = options else { return Ok((chosen, Polling::default())) };
    unused(&options.reserved)?;
    if options.flags & !HAMLYN_CHANNEL_BY_MESSAGES != 0 {
        let (flags, limit) = (options.flags, HAMLYN_CHANNEL_BY_MESSAGES);
        return Err(Failure::argument(format!("flags {flags} are out of range (limit {limit})")));
    }
    if options.capacity != 0 {
        chosen.capacity = options.capacity;
    }
    chosen.by_messages = options.flags & HAMLYN_CHANNEL_BY_MESSAGES != 0;
    Ok((chosen, polling(options.polling_us)))
}
