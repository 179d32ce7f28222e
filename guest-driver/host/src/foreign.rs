//! The interface to C: the declarations of `shim/host.h` (`api`), and the ports that it calls. All
//! `unsafe` code of this crate is here.
//!
//! All C objects belong to one [`Host`]. It alone has their addresses, and does not pass them on. A
//! caller has exclusive access to the host.
#![allow(unsafe_code)]

mod api;

use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::ptr::{NonNull, null_mut};
use std::slice;

use hamlyn_abi::kernel::well_known::ULN_WELL_KNOWN_PLACE_SIZE;
use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_abi::uapi::{UlnConnect, UlnConnectionState, UlnExpressQuery, UlnListen, UlnPrivate};
use rustix::io::{Errno, Result};
use zerocopy::FromZeros;

use api::*;

use crate::express::EndState;
use crate::{Ports, Sizes};

/// What C can access during a call.
struct Context<'a> {
    ports: &'a mut dyn Ports,
    woken: &'a mut Vec<u32>,
    random: &'a mut u32,
    link: Option<u32>,
}

/// Returns the context that C was called with.
///
/// # Safety
/// `ports` is the pointer that C was called with, and that call has not returned.
unsafe fn context<'a>(ports: *mut c_void) -> &'a mut Context<'a> {
    // SAFETY: guaranteed by the caller. Nothing else accesses it meanwhile, and C never holds two
    // of them at the same time.
    unsafe { &mut *ports.cast() }
}

unsafe extern "C" fn random(ports: *mut c_void) -> u32 {
    // SAFETY: C passes the pointer that it was called with.
    let context = unsafe { context(ports) };
    let number = *context.random;
    // The first is the origin; any other distinct numbers will do.
    *context.random = number.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
    number
}

unsafe extern "C" fn allocates(ports: *mut c_void) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.allocates()
}

unsafe extern "C" fn link(ports: *mut c_void, host: *mut u32) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    let link = unsafe { context(ports) }.link;
    // SAFETY: C passes a pointer to a number of its own.
    unsafe { *host = link.unwrap_or(u32::MAX) };
    link.is_some()
}

unsafe extern "C" fn post(
    ports: *mut c_void,
    host: u32,
    entry: u32,
    wire: *const UlnWire,
    data: *const u8,
    length: u32,
) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    let context = unsafe { context(ports) };
    let data = match length {
        0 => &[],
        // SAFETY: C passes `length` bytes of its own, which do not change meanwhile.
        length => unsafe { slice::from_raw_parts(data, length as usize) },
    };
    // SAFETY: C passes a valid head of its own, which does not change meanwhile.
    context.ports.post(host, entry, unsafe { &*wire }, data)
}

unsafe extern "C" fn take(ports: *mut c_void, host: *mut u32, entry: *mut u32) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    let taken = unsafe { context(ports) }.ports.take();
    if let Some((from, place)) = taken {
        // SAFETY: C passes pointers to two numbers of its own.
        unsafe { (*host, *entry) = (from, place) };
    }
    taken.is_some()
}

unsafe extern "C" fn more(ports: *mut c_void) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.more()
}

unsafe extern "C" fn read(ports: *mut c_void, host: u32, entry: u32, wire: *mut UlnWire, place: *mut u8) {
    // SAFETY: C passes the pointer that it was called with.
    let context = unsafe { context(ports) };
    // SAFETY: C passes a complete place of its own, which nothing else accesses meanwhile.
    let place = unsafe { slice::from_raw_parts_mut(place, ULN_WELL_KNOWN_PLACE_SIZE as usize) };
    let read = context.ports.read(host, entry, place);
    // SAFETY: C passes a pointer to a head of its own.
    unsafe { wire.write(read) };
}

unsafe extern "C" fn reopen(ports: *mut c_void, host: u32, entry: u32) {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.reopen(host, entry);
}

unsafe extern "C" fn message(ports: *mut c_void, host: u32, wire: *const UlnWire, data: *const u8) {
    // SAFETY: C passes the pointer that it was called with.
    let context = unsafe { context(ports) };
    // SAFETY: C passes a valid head of its own, which does not change meanwhile.
    let wire = unsafe { &*wire };
    // SAFETY: C has checked that this many bytes are in the place that it read the message from.
    let data = unsafe { slice::from_raw_parts(data, wire.private_length as usize) };
    context.ports.message(host, wire, data);
}

unsafe extern "C" fn lost(ports: *mut c_void, host: u32) {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.lost(host);
}

unsafe extern "C" fn depends(ports: *mut c_void, host: u32) -> bool {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.depends(host)
}

unsafe extern "C" fn woken(ports: *mut c_void, file: u32) {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.woken.push(file);
}

unsafe extern "C" fn withdraw(ports: *mut c_void, file: u32) {
    // SAFETY: C passes the pointer that it was called with.
    unsafe { context(ports) }.ports.withdraw(file);
}

/// Ports without a card or a clock, for creating a system.
struct Nothing;

impl Ports for Nothing {
    fn now(&self) -> u64 {
        0
    }
    fn post(&mut self, _: u32, _: u32, _: &UlnWire, _: &[u8]) -> bool {
        false
    }
    fn take(&mut self) -> Option<(u32, u32)> {
        None
    }
    fn more(&mut self) -> bool {
        false
    }
    fn read(&mut self, _: u32, _: u32, _: &mut [u8]) -> UlnWire {
        UlnWire::default()
    }
    fn reopen(&mut self, _: u32, _: u32) {}
}

/// Converts C's result as in a kernel: 0, or a negative error number.
fn result(code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(-code)) }
}

/// A system in C, with the objects that it has returned.
pub(crate) struct Host {
    raw: NonNull<RawHost>,
    listeners: BTreeMap<u32, NonNull<RawListener>>,
    connections: BTreeMap<u32, NonNull<RawConnection>>,
    ends: BTreeMap<u32, NonNull<RawEnd>>,
    last: u32,
    random: u32,
    /// This host's id while the link is up.
    pub(crate) link: Option<u32>,
    pub(crate) woken: Vec<u32>,
}

// SAFETY: C has thread-local state only during a call, and shares nothing between systems.
unsafe impl Send for Host {}

impl fmt::Debug for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { link, .. } = self;
        out.debug_struct("Host").field("link", link).field("sizes", &self.sizes()).finish_non_exhaustive()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: C made it, and it is not used after this.
        unsafe { host_destroy(self.raw.as_ptr()) };
    }
}

impl Host {
    pub(crate) fn new(origin: u32, timeout: u32) -> Self {
        let (mut random, mut woken) = (origin, Vec::new());
        let made = with_call(&mut Nothing, &mut woken, &mut random, None, |call| {
            // SAFETY: the call is valid.
            unsafe { host_create(call, 0, timeout) }
        });
        let Some(raw) = NonNull::new(made) else { handle_alloc_error(Layout::new::<[u8; 65536]>()) };
        let (listeners, connections, ends) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { raw, listeners, connections, ends, last: 0, random, link: None, woken }
    }

    /// Calls C.
    fn call<T>(&mut self, ports: &mut dyn Ports, verb: impl FnOnce(*mut RawHost, *const Call) -> T) -> T {
        let raw = self.raw.as_ptr();
        with_call(ports, &mut self.woken, &mut self.random, self.link, |call| verb(raw, call))
    }

    fn next_file(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    fn connection(&self, number: u32) -> Result<*mut RawConnection> {
        self.connections.get(&number).map(|raw| raw.as_ptr()).ok_or(Errno::NOTCONN)
    }

    pub(crate) fn open(&mut self, ports: &mut dyn Ports) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_open(host, call) });
    }

    pub(crate) fn stop(&mut self, ports: &mut dyn Ports) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_stop(host, call) });
    }

    pub(crate) fn lost(&mut self, ports: &mut dyn Ports, reason: u32) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_lost(host, call, reason) });
    }

    pub(crate) fn arrived(&mut self, ports: &mut dyn Ports) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_arrived(host, call) });
    }

    pub(crate) fn lapsed(&mut self, ports: &mut dyn Ports) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_lapsed(host, call) });
    }

    pub(crate) fn work(&mut self, ports: &mut dyn Ports) -> bool {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_work(host, call) })
    }

    pub(crate) fn due(&self) -> Option<u64> {
        let mut due = 0;
        // SAFETY: the host is valid, and the number is ours.
        unsafe { host_due(self.raw.as_ptr(), &mut due) }.then_some(due)
    }

    pub(crate) fn say(&mut self, ports: &mut dyn Ports, to: u32, wire: &UlnWire, data: &[u8]) -> Result<()> {
        let private_length = u32::try_from(data.len()).map_err(|_| Errno::MSGSIZE)?;
        let wire = UlnWire { private_length, ..*wire };
        // SAFETY: host and call are valid, and `private_length` is the number of bytes.
        result(self.call(ports, |host, call| unsafe { host_say(host, call, to, &wire, data.as_ptr()) }))
    }

    pub(crate) fn set_hosts(&mut self, ports: &mut dyn Ports, hosts: u32) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_set_hosts(host, call, hosts) });
    }

    pub(crate) fn watch(&mut self, ports: &mut dyn Ports, peer: u32) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_watch(host, call, peer) });
    }

    pub(crate) fn listen(&mut self, ports: &mut dyn Ports, listen: &UlnListen) -> Result<u32> {
        let (file, mut opened) = (self.next_file(), null_mut());
        // SAFETY: host, call and name are valid, and the pointer is ours.
        result(self.call(ports, |host, call| unsafe { host_listen(host, call, listen, file, &mut opened) }))?;
        self.listeners.extend(NonNull::new(opened).map(|raw| (file, raw)));
        Ok(file)
    }

    pub(crate) fn claim(&mut self, ports: &mut dyn Ports, listener: u32) -> Result<u32> {
        let listener = self.listeners.get(&listener).ok_or(Errno::NODEV)?.as_ptr();
        let (file, mut claimed) = (self.next_file(), null_mut());
        // SAFETY: host, call and listener are valid, and the pointer is ours.
        let claim = |host, call| unsafe { host_claim(host, call, listener, file, &mut claimed) };
        result(self.call(ports, claim))?;
        self.connections.extend(NonNull::new(claimed).map(|raw| (file, raw)));
        Ok(file)
    }

    pub(crate) fn unlisten(&mut self, ports: &mut dyn Ports, listener: u32) {
        let Some(listener) = self.listeners.remove(&listener) else { return };
        // SAFETY: host, call and listener are valid, and the listener is not used after this.
        self.call(ports, |host, call| unsafe { host_unlisten(host, call, listener.as_ptr()) });
    }

    pub(crate) fn waiting(&self, listener: u32) -> Option<u32> {
        let listener = self.listeners.get(&listener)?;
        // SAFETY: the listener is valid.
        unsafe { host_waiting(listener.as_ptr()) }.try_into().ok()
    }

    pub(crate) fn request(
        &mut self,
        ports: &mut dyn Ports,
        connect: &UlnConnect,
        question: bool,
    ) -> Result<u32> {
        let (file, mut made) = (self.next_file(), null_mut());
        // SAFETY: host, call and request are valid, and the pointer is ours.
        result(self.call(ports, |host, call| unsafe {
            host_request(host, call, connect, question, file, &mut made)
        }))?;
        self.connections.extend(NonNull::new(made).map(|raw| (file, raw)));
        Ok(file)
    }

    pub(crate) fn answer(
        &mut self,
        ports: &mut dyn Ports,
        number: u32,
        kind: u32,
        private: &UlnPrivate,
    ) -> Result<()> {
        let connection = self.connection(number)?;
        // SAFETY: host, call, connection and bytes are valid.
        result(self.call(ports, |host, call| unsafe { host_answer(host, call, connection, kind, private) }))
    }

    pub(crate) fn close(
        &mut self,
        ports: &mut dyn Ports,
        number: u32,
        reason: u32,
        private: &UlnPrivate,
    ) -> Result<()> {
        let connection = self.connection(number)?;
        // SAFETY: host, call, connection and bytes are valid.
        result(self.call(ports, |host, call| unsafe { host_close(host, call, connection, reason, private) }))
    }

    pub(crate) fn abandon(&mut self, ports: &mut dyn Ports, number: u32) {
        let Ok(connection) = self.connection(number) else { return };
        // SAFETY: host, call and connection are valid.
        self.call(ports, |host, call| unsafe { host_abandon(host, call, connection) });
    }

    pub(crate) fn release(&mut self, ports: &mut dyn Ports, number: u32) {
        let Some(connection) = self.connections.remove(&number) else { return };
        // SAFETY: host, call and connection are valid, and the connection is not used after this.
        self.call(ports, |host, call| unsafe { host_release(host, call, connection.as_ptr()) });
    }

    pub(crate) fn describe(&self, number: u32) -> Option<UlnConnectionState> {
        let mut state = UlnConnectionState::new_zeroed();
        let connection = self.connection(number).ok()?;
        // SAFETY: the connection is valid, and the state is ours.
        unsafe { host_describe(connection, &mut state) };
        Some(state)
    }

    pub(crate) fn express_begin(&mut self, ports: &mut dyn Ports, own: u32) -> Result<()> {
        // SAFETY: host and call are valid.
        result(self.call(ports, |host, call| unsafe { host_express_begin(host, call, own) }))
    }

    pub(crate) fn express_part(
        &mut self,
        ports: &mut dyn Ports,
        peer: u32,
        memory: u64,
        pages: u32,
    ) -> Result<()> {
        // SAFETY: host and call are valid. Express memory has begun before its parts are added; C
        // does not check that.
        result(self.call(ports, |host, call| unsafe { host_express_part(host, call, peer, memory, pages) }))
    }

    pub(crate) fn express_stop(&mut self, ports: &mut dyn Ports) {
        // SAFETY: host and call are valid.
        self.call(ports, |host, call| unsafe { host_express_stop(host, call) });
    }

    pub(crate) fn express_create(
        &mut self,
        ports: &mut dyn Ports,
        peer: u32,
        pages: u32,
        again: bool,
    ) -> Result<u32> {
        let (file, mut made) = (self.next_file(), null_mut());
        // SAFETY: host and call are valid, and the pointer is ours.
        result(self.call(ports, |host, call| unsafe {
            host_express_create(host, call, peer, pages, again, file, &mut made)
        }))?;
        self.ends.extend(NonNull::new(made).map(|raw| (file, raw)));
        Ok(file)
    }

    pub(crate) fn express_map(
        &mut self,
        ports: &mut dyn Ports,
        peer: u32,
        area: u32,
        key: u64,
    ) -> Result<u32> {
        let (file, mut made) = (self.next_file(), null_mut());
        // SAFETY: host and call are valid, and the pointer is ours.
        result(self.call(ports, |host, call| unsafe {
            host_express_map(host, call, peer, area, key, file, &mut made)
        }))?;
        self.ends.extend(NonNull::new(made).map(|raw| (file, raw)));
        Ok(file)
    }

    pub(crate) fn express_close(&mut self, ports: &mut dyn Ports, file: u32) {
        let Some(end) = self.ends.remove(&file) else { return };
        // SAFETY: host, call and end are valid, and the end is not used after this.
        self.call(ports, |host, call| unsafe { host_express_close(host, call, end.as_ptr()) });
    }

    pub(crate) fn express_user(&mut self, user: u32, messages: u32) {
        // SAFETY: the host is valid, and access to it is exclusive.
        unsafe { host_express_user(self.raw.as_ptr(), user, messages) };
    }

    pub(crate) fn express_spare(&mut self, pages: u32) {
        // SAFETY: the host is valid, and access to it is exclusive.
        unsafe { host_express_spare(self.raw.as_ptr(), pages) };
    }

    pub(crate) fn express_describe(&mut self, ports: &mut dyn Ports, query: &mut UlnExpressQuery) {
        // SAFETY: host and call are valid, and the query is ours.
        self.call(ports, |host, call| unsafe { host_express_describe(host, call, query) });
    }

    pub(crate) fn express_look(&self, file: u32) -> Option<EndState> {
        let (end, mut state) = (self.ends.get(&file)?, EndState::default());
        // SAFETY: the end is valid, and the state is ours.
        unsafe { host_express_look(end.as_ptr(), &mut state) };
        Some(state)
    }

    pub(crate) fn listeners(&self) -> Vec<u32> {
        self.listeners.keys().copied().collect()
    }

    pub(crate) fn connections(&self) -> Vec<u32> {
        self.connections.keys().copied().collect()
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        // SAFETY: the host is valid, and the sizes are ours.
        unsafe { host_sizes(self.raw.as_ptr(), &mut sizes) };
        sizes
    }

    pub(crate) fn renewed(&self, peer: u32) -> u64 {
        // SAFETY: the host is valid.
        unsafe { host_renewed(self.raw.as_ptr(), peer) }
    }

    pub(crate) fn complaint(&self) -> Option<String> {
        // SAFETY: the host is valid.
        let complaint = unsafe { host_complaint(self.raw.as_ptr()) };
        // SAFETY: it is either null or a string constant in C.
        (!complaint.is_null()).then(|| unsafe { CStr::from_ptr(complaint) }.to_string_lossy().into_owned())
    }
}

/// Builds a call from what C may access, and passes it to `verb`.
fn with_call<T>(
    ports: &mut dyn Ports,
    woken_: &mut Vec<u32>,
    random_: &mut u32,
    link_: Option<u32>,
    verb: impl FnOnce(*const Call) -> T,
) -> T {
    let now = ports.now();
    let mut context = Context { ports, woken: woken_, random: random_, link: link_ };
    let ports = (&raw mut context).cast();
    let call = Call {
        ports,
        now,
        random,
        allocates,
        link,
        post,
        take,
        more,
        read,
        reopen,
        message,
        lost,
        depends,
        woken,
        withdraw,
    };
    verb(&call)
}
