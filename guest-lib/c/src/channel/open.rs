//! Opening channels.

use std::ffi::{c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};

use hamlyn::Polling;
use hamlyn::channel::{Channel, Listener, Options};

use super::card::uln_card;
use super::receiver::uln_receiver;
use super::sender::uln_sender;
use crate::call::{Failure, at_once, call, free, given, store, timeout, unused};
use crate::memory::text;
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

/// Registers a name, of 1 to 64 bytes. The options may be NULL. Fails with -EADDRINUSE if the name
/// is taken on this host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_listen(
    card: Option<&uln_card>,
    name: *const c_char,
    options: Option<&uln_options>,
    listener: Option<&mut MaybeUninit<Box<uln_listener>>>,
) -> c_int {
    call(|| {
        let to = given(listener, "listener")?;
        let (options, polling) = read(options)?;
        let listener = Listener::bind(&given(card, "card")?.0, text(name, "name")?, options)?;
        store(to, Box::new(uln_listener { listener, polling }))
    })
}

/// Releases the name. NULL is a no-op.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_listener_destroy(listener: Option<Box<uln_listener>>) {
    free(listener);
}

/// Returns a file descriptor, owned by the library: readable while a request is pending.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_listener_fd(listener: Option<&uln_listener>) -> c_int {
    call(|| Ok(given(listener, "listener")?.listener.as_fd().as_raw_fd()))
}

/// Accepts the next request, and stores both ends of a channel. Different threads may use the two
/// ends. If there are too few pages or objects (-ENOSPC, -EDQUOT, -ENOMEM), the requester is told,
/// and the listener can accept further requests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_accept(
    listener: Option<&uln_listener>,
    sender: Option<&mut MaybeUninit<Box<uln_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<uln_receiver>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let listener = given(listener, "listener")?;
        let accepted = match timeout(timeout_ms) {
            None => listener.listener.accept(),
            Some(limit) => listener.listener.accept_timeout(limit),
        };
        store_both(to, at_once(timeout_ms, accepted)?, listener.polling)
    })
}

/// Opens a channel to a name on a host, and stores both ends. The options may be NULL. Fails with
/// -ECONNREFUSED if the name has no listener there or the listener refuses, and with -EHOSTUNREACH
/// if the host does not exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connect(
    card: Option<&uln_card>,
    host: u32,
    name: *const c_char,
    options: Option<&uln_options>,
    sender: Option<&mut MaybeUninit<Box<uln_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<uln_receiver>>>,
    timeout_ms: c_int,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let (options, polling) = read(options)?;
        let (card, name) = (&given(card, "card")?.0, text(name, "name")?);
        let opened = match timeout(timeout_ms) {
            None => Channel::connect(card, host, name, options),
            Some(limit) => Channel::connect_timeout(card, host, name, options, limit),
        };
        store_both(to, at_once(timeout_ms, opened)?, polling)
    })
}

/// Opens a channel to a name on the lowest host whose listener accepts, like uln_connect. Waits for
/// each host for a limited time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn uln_connect_any(
    card: Option<&uln_card>,
    name: *const c_char,
    options: Option<&uln_options>,
    sender: Option<&mut MaybeUninit<Box<uln_sender>>>,
    receiver: Option<&mut MaybeUninit<Box<uln_receiver>>>,
) -> c_int {
    call(|| {
        let to = (given(sender, "sender")?, given(receiver, "receiver")?);
        let (options, polling) = read(options)?;
        let channel = Channel::connect_any(&given(card, "card")?.0, text(name, "name")?, options)?;
        store_both(to, channel, polling)
    })
}

type Places<'a> = (&'a mut MaybeUninit<Box<uln_sender>>, &'a mut MaybeUninit<Box<uln_receiver>>);

fn store_both((sender, receiver): Places<'_>, channel: Channel, polling: Polling) -> Result<c_int, Failure> {
    let mut channel = channel;
    channel.sender.set_polling(polling);
    channel.receiver.set_polling(polling);
    sender.write(Box::new(uln_sender(channel.sender)));
    receiver.write(Box::new(uln_receiver(channel.receiver)));
    Ok(0)
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
