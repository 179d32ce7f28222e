//! Opening channels.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::Polling;
use hamlyn::channel::{Channel, Listener, Options};

use super::card::uln_card;
use super::receiver::uln_receiver;
use super::sender::uln_sender;
use crate::call::{Failure, at_once, timeout, unused, waited};
use crate::exported::{Out, exported};
use crate::polling::polling;

/// For uln_options.flags: uses the card even if the two hosts share express memory.
pub const ULN_BY_CARD: u32 = 1;

/// Options for this end of a channel; 0 in a field selects the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct uln_options {
    /// Size in bytes of the ring in each direction, in whole pages; 61440 by default. Both
    /// directions use the smaller of the two ends' requests. The longest message is half of the
    /// ring minus 8 bytes.
    pub capacity: u64,
    /// Microseconds for which a waiting call polls memory before it sleeps, at most; 1000 by
    /// default. ULN_NO_POLLING disables polling.
    pub polling_us: u32,
    /// ULN_BY_CARD, or 0.
    pub flags: u32,
    /// Must be 0.
    pub reserved: [u32; 4],
}

/// A name under which processes of all hosts open channels to this one. Any number of threads may
/// use it at once.
pub struct uln_listener {
    listener: Listener,
    polling: Polling,
}

exported! {
/// Registers a name, of 1 to 64 bytes. The options may be NULL. Fails with -EADDRINUSE if the name
/// is taken on this host.
fn uln_listen(card: &uln_card, name: &str, options: Option<&uln_options>, listener: Out<Box<uln_listener>>) {
    let (options, polling) = read(options)?;
    let bound = Listener::bind(&card.0, name, options)?;
    listener.store(uln_listener { listener: bound, polling })
}

/// Releases the name. NULL is a no-op.
fn uln_listener_destroy(listener: Box<uln_listener>);

/// Returns a file descriptor, owned by the library: readable while a request is pending.
fn uln_listener_fd(listener: &uln_listener) {
    listener.listener.as_fd().as_raw_fd()
}

/// Accepts the next request, and stores both ends of a channel. Different threads may use the two
/// ends. If there are too few pages or objects (-ENOSPC, -EDQUOT, -ENOMEM), the requester is told,
/// and the listener can accept further requests.
fn uln_accept(
    listener: &uln_listener,
    sender: Out<Box<uln_sender>>,
    receiver: Out<Box<uln_receiver>>,
    timeout_ms: c_int,
) {
    let accepted = waited!(timeout_ms, listener.listener => accept / accept_timeout())?;
    store_both((sender, receiver), accepted, listener.polling)
}

/// Opens a channel to a name on a host, and stores both ends. The options may be NULL. Fails with
/// -ECONNREFUSED if the name has no listener there or the listener refuses, and with -EHOSTUNREACH
/// if the host does not exist.
fn uln_connect(
    card: &uln_card,
    host: u32,
    name: &str,
    options: Option<&uln_options>,
    sender: Out<Box<uln_sender>>,
    receiver: Out<Box<uln_receiver>>,
    timeout_ms: c_int,
) {
    let (options, polling) = read(options)?;
    let opened = match timeout(timeout_ms) {
        None => Channel::connect(&card.0, host, name, options),
        Some(limit) => Channel::connect_timeout(&card.0, host, name, options, limit),
    };
    store_both((sender, receiver), at_once(timeout_ms, opened)?, polling)
}

/// Opens a channel to a name on the lowest host whose listener accepts, like uln_connect. The
/// timeout is that of all hosts together; each has a limit of its own besides.
fn uln_connect_any(
    card: &uln_card,
    name: &str,
    options: Option<&uln_options>,
    sender: Out<Box<uln_sender>>,
    receiver: Out<Box<uln_receiver>>,
    timeout_ms: c_int,
) {
    let (options, polling) = read(options)?;
    let opened = match timeout(timeout_ms) {
        None => Channel::connect_any(&card.0, name, options),
        Some(limit) => Channel::connect_any_timeout(&card.0, name, options, limit),
    };
    store_both((sender, receiver), at_once(timeout_ms, opened)?, polling)
}
}

type Places<'a> = (Out<'a, Box<uln_sender>>, Out<'a, Box<uln_receiver>>);

fn store_both((sender, receiver): Places<'_>, channel: Channel, polling: Polling) {
    let mut channel = channel;
    channel.sender.set_polling(polling);
    channel.receiver.set_polling(polling);
    sender.store(uln_sender(channel.sender));
    receiver.store(uln_receiver(channel.receiver));
}

/// Returns the options, and how long the ends poll.
fn read(options: Option<&uln_options>) -> Result<(Options, Polling), Failure> {
    let mut chosen = Options::default();
    let Some(options) = options else { return Ok((chosen, Polling::default())) };
    unused(&options.reserved)?;
    if options.flags & !ULN_BY_CARD != 0 {
        let (flags, limit) = (options.flags, ULN_BY_CARD);
        return Err(Failure::argument(format!("flags {flags} are out of range (limit {limit})")));
    }
    if options.capacity != 0 {
        chosen.capacity = options.capacity;
    }
    chosen.by_card = options.flags & ULN_BY_CARD != 0;
    Ok((chosen, polling(options.polling_us)))
}
