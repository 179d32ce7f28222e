//! A TCP connection of the program, which may go over a channel.

mod call;
mod flags;
mod sets;
mod state;
mod tcp;

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hamlyn::channel::{Channel, Listener};
use hamlyn::{Poller, Polling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;

pub(crate) use self::call::{Call, Manner, Sleep, Step};
use self::call::{FILES, NO_FILE};
use self::flags::Flags;
use self::sets::Sets;
pub(crate) use self::sets::Watcher;
use self::state::{Offer, State};
use self::tcp::Connection;
use crate::bell::{self, Sleepers};
use crate::link::{ChannelLink, has_descriptors};
use crate::report;
use crate::stream::{Link, Stream, Way};
use crate::{foreign, node};

/// Receives after which the accepting end opens a channel: a connection with one request is over
/// before. One that only sends has more calls.
const RECEIVES: u32 = 2;
const SENDS: u32 = 16;
/// Calls without a channel after which none is expected.
const CALLS: u32 = 10_000;
/// Calls between two looks for a request.
const LOOKS: u32 = 8;
/// How long a close waits until delivery is certain.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

pub(crate) const IN: i16 = libc::POLLIN;
pub(crate) const OUT: i16 = libc::POLLOUT;
/// What is reported whether it is asked for or not.
pub(crate) const ALWAYS: i16 = libc::POLLERR | libc::POLLHUP;
const HANGUP: i16 = libc::POLLRDHUP;

/// A descriptor that a waiter polls, and for what.
pub(crate) type Watched = (RawFd, i16);

#[derive(Debug)]
pub(crate) struct Socket {
    state: Mutex<State>,
    poller: Poller,
    /// Whether something came since the last wait.
    came: AtomicBool,
    /// Counts changes of the descriptors that a waiter polls.
    changes: AtomicU64,
    /// All goes by TCP, for good: calls need not come here.
    plain: AtomicBool,
    flags: Flags,
    /// Number of receives, and of sends that had no room.
    calls: [AtomicU32; 2],
    pub(crate) sets: Sets,
    /// Threads that wait for bytes.
    sleepers: Sleepers,
}

impl Socket {
    /// A connection that this process asked for, just before others may find it.
    pub(crate) fn connecting(own: OwnedFd, name: &str) -> Option<Self> {
        if !has_descriptors() {
            return None;
        }
        let listener = Listener::bind_as_socket(&node::card()?, name, own.as_fd(), node::options()).ok()?;
        Some(Self::new(own, false, Offer::Named(listener)))
    }

    /// A connection that this process has accepted.
    pub(crate) fn accepted(own: OwnedFd, name: String, peer: SocketAddrV4) -> Self {
        Self::new(own, true, Offer::Later(name, peer))
    }

    fn new(own: OwnedFd, is_accepted: bool, offer: Offer) -> Self {
        let state = State {
            tcp: Connection(own),
            stream: Stream::new(is_accepted),
            offer,
            receives: 0,
            sends: 0,
            calls: 0,
            tries: 0,
            by_tcp: 0,
            by_channel: 0,
            attached: None,
            is_express: false,
            is_counted: false,
            is_deaf: false,
            hung_up: false,
            failed: None,
        };
        report::count(&report::CONNECTIONS, 1);
        Self {
            state: Mutex::new(state),
            poller: Poller::new(Polling::default()),
            came: AtomicBool::new(true),
            changes: AtomicU64::new(0),
            plain: AtomicBool::new(false),
            flags: Flags::default(),
            calls: Default::default(),
            sets: Sets::default(),
            sleepers: Sleepers::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.plain.load(Ordering::Relaxed)
    }

    /// Counts changes of what [`Socket::watch`] returns.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn calls(&self) -> [u32; 2] {
        [0, 1].map(|kind| self.calls[kind].load(Ordering::Relaxed))
    }

    /// If two threads count at once, one may be lost: both have called.
    fn count_call(&self, kind: usize) {
        let calls = self.calls[kind].load(Ordering::Relaxed);
        self.calls[kind].store(calls.wrapping_add(1), Ordering::Relaxed);
    }

    /// Keeps the connection on TCP, as the program does what only TCP can. Returns `false` if it
    /// is too late.
    pub(crate) fn keep_tcp(&self) -> bool {
        let mut state = self.state();
        if state.stream.has_switched() || state.stream.is_guarded() {
            return false;
        }
        state.offer = Offer::None;
        state.stream.take_link();
        self.settle(&mut state);
        true
    }

    /// Makes the step that is possible by now, and notes whether a channel can still come.
    fn step(&self, state: &mut State, looks: bool) -> Result<(), i32> {
        if let Some(error) = state.failed {
            return Err(error);
        }
        let (had_link, way_in) = (state.stream.link().is_some(), state.way_in());
        let has_news = looks && state.look();
        let stepped = state.stream.advance(&mut state.tcp);
        if state.stream.is_agreeing() {
            state.limit_agreement();
        }
        let switches = state.stream.has_switched() && !state.is_counted;
        if switches {
            (state.is_counted, state.offer) = (true, Offer::None);
            report::count(&report::SWITCHED, 1);
            report::count(&report::EXPRESS, u64::from(state.is_express));
        }
        if has_news || switches || state.stream.link().is_some() != had_link {
            self.settle(state);
        }
        self.rouse_if(state.way_in() != way_in);
        stepped.inspect_err(|error| state.failed = Some(*error))
    }

    /// Wakes threads that wait for bytes, if they have to wait in another way now.
    fn rouse_if(&self, has_changed: bool) {
        if has_changed {
            self.sleepers.rouse();
            self.sets.note_change();
        }
    }

    fn settle(&self, state: &mut State) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        let stays =
            state.stream.link().is_none() && !state.stream.has_switched() && !state.stream.is_guarded();
        if stays && matches!(state.offer, Offer::None) {
            self.plain.store(true, Ordering::Relaxed);
        }
    }

    /// Receives bytes, or says what to wait for first. `to` is what is left of the program's
    /// buffers.
    pub(crate) fn read(
        &self,
        fd: RawFd,
        mut to: &mut [IoSliceMut<'_>],
        manner: Manner,
        call: &mut Call,
    ) -> Step {
        self.count_call(0);
        self.sets.touch();
        loop {
            let wanted = to.iter().map(|part| part.len()).sum();
            let tried = self.try_read(to, wanted, manner.peek);
            self.sets.tell_change();
            match tried {
                // The end.
                Ok(0) => return Step::Done(Ok(call.done)),
                Ok(more) => {
                    call.done += if manner.peek { 0 } else { more };
                    if !manner.all || manner.peek || more == wanted {
                        return Step::Done(Ok(call.done.max(more)));
                    }
                    IoSliceMut::advance_slices(&mut to, more);
                }
                Err(libc::EAGAIN) => match self.prepare(fd, IN, manner, call, libc::SO_RCVTIMEO) {
                    Ok(None) => {}
                    Ok(Some(sleep)) => return Step::Sleep(sleep),
                    Err(error) => return call.end(error),
                },
                Err(error) => return call.end(error),
            }
        }
    }

    fn try_read(&self, to: &mut [IoSliceMut<'_>], wanted: usize, peek: bool) -> Result<usize, i32> {
        let state = &mut *self.state();
        if state.is_deaf || wanted == 0 {
            return Ok(0);
        }
        state.calls += 1;
        let looks = state.calls % LOOKS == 0 || matches!(state.offer, Offer::Opening(..));
        self.step(state, looks)?;
        let before = state.way_in();
        let way = state.stream.way_in(&mut state.tcp, wanted);
        self.rouse_if(state.way_in() != before);
        match way? {
            Way::Channel => {
                let got = state.stream.link().ok_or(libc::ECONNRESET)?.read(to, peek)?;
                state.by_channel += if peek { 0 } else { got as u64 };
                Ok(got)
            }
            Way::Tcp(0) => Err(libc::EAGAIN),
            Way::Tcp(limit) => {
                let flags = if peek { RecvFlags::PEEK } else { RecvFlags::empty() };
                let got = state.tcp.receive_with(to, limit, flags)?;
                if got > 0 && !peek {
                    state.stream.received(got);
                    state.receives += 1;
                    state.by_tcp += got as u64;
                    self.offer_later(state);
                }
                Ok(got)
            }
        }
    }

    /// Sends bytes, or says what to wait for first. `from` is what is left of the program's
    /// buffers.
    pub(crate) fn write(
        &self,
        fd: RawFd,
        mut from: &mut [IoSlice<'_>],
        manner: Manner,
        call: &mut Call,
    ) -> Step {
        self.sets.touch();
        loop {
            let tried = self.try_write(from);
            self.sets.tell_change();
            match tried {
                Ok(more) => {
                    call.done += more;
                    IoSlice::advance_slices(&mut from, more);
                    if from.is_empty() {
                        return Step::Done(Ok(call.done));
                    }
                }
                Err(libc::EAGAIN) => {
                    self.count_call(1);
                    match self.prepare(fd, OUT, manner, call, libc::SO_SNDTIMEO) {
                        Ok(None) => {}
                        Ok(Some(sleep)) => return Step::Sleep(sleep),
                        Err(error) => return call.end(error),
                    }
                }
                Err(error) => return call.end(error),
            }
        }
    }

    fn try_write(&self, from: &[IoSlice<'_>]) -> Result<usize, i32> {
        let state = &mut *self.state();
        state.calls += 1;
        let looks = state.calls % LOOKS == 0 || matches!(state.offer, Offer::Opening(..));
        self.step(state, looks)
            .map_err(|error| if error == libc::ECONNRESET { libc::EPIPE } else { error })?;
        if from.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        if state.stream.way_out(&mut state.tcp)? {
            let sent = state.stream.link().ok_or(libc::EPIPE)?.write(from)?;
            state.by_channel += sent as u64;
            return Ok(sent);
        }
        let sent = state.tcp.send_all(from)?;
        state.stream.sent(sent);
        state.sends += 1;
        state.by_tcp += sent as u64;
        self.offer_later(state);
        Ok(sent)
    }

    /// Begins to open a channel once the connection has lived long enough.
    fn offer_later(&self, state: &mut State) {
        if state.calls >= CALLS && state.stream.link().is_none() {
            state.offer = Offer::None;
            self.settle(state);
        }
        let factor = 8_u32.pow(state.tries);
        if let Offer::Later(name, peer) = &state.offer {
            if state.receives >= RECEIVES * factor || state.sends >= SENDS * factor {
                let opening = node::card()
                    .zip(node::host_of(*peer))
                    .filter(|_| has_descriptors())
                    .and_then(|(card, host)| Channel::begin_connect(&card, host, name, node::options()).ok());
                state.offer = match opening {
                    Some(opening) => Offer::Opening(name.clone(), *peer, Box::new(opening)),
                    None => Offer::None,
                };
                self.settle(state);
            }
        }
    }

    /// Prepares to wait for an event, unless the call or the descriptor must not. `None`: it may be
    /// there.
    fn prepare(
        &self,
        fd: RawFd,
        event: i16,
        manner: Manner,
        call: &mut Call,
        option: i32,
    ) -> Result<Option<Sleep>, i32> {
        if manner.at_once || self.flags.must_not_wait(fd) {
            return Err(libc::EAGAIN);
        }
        let mut watched = Vec::with_capacity(FILES);
        if self.spins(event) {
            let came = self.came.swap(false, Ordering::Relaxed);
            if self.poller.poll_before_arming(came, || self.readiness(event) != 0) {
                self.came.store(true, Ordering::Relaxed);
                return Ok(None);
            }
        }
        // Whatever ends the sleep, the next look finds out.
        self.came.store(true, Ordering::Relaxed);
        bell::hush();
        if self.watch_asleep(event, &mut watched) {
            return Ok(None);
        }
        let left = call.left(|| foreign::timeout(fd, option))?;
        let mut sleep = Sleep { files: [NO_FILE; FILES], count: watched.len().min(FILES), left };
        for (file, (fd, events)) in sleep.files.iter_mut().zip(watched) {
            *file = libc::pollfd { fd, events, revents: 0 };
        }
        Ok(Some(sleep))
    }

    /// The program has changed the descriptor's flags.
    pub(crate) fn flags_change(&self) {
        self.flags.change();
    }

    /// Whether polling memory may find this event.
    pub(crate) fn spins(&self, events: i16) -> bool {
        let state = self.state();
        (events & IN != 0 && state.stream.receives_by_channel())
            || (events & OUT != 0 && state.stream.sends_by_channel())
    }

    /// Returns which of `events` hold now, and errors.
    pub(crate) fn readiness(&self, events: i16) -> i16 {
        let state = &mut *self.state();
        if self.step(state, false).is_err() {
            return (events & (IN | OUT)) | libc::POLLERR | libc::POLLHUP;
        }
        let mut found = 0;
        let mut by_tcp = 0;
        if state.is_deaf {
            found |= events & (IN | HANGUP);
        } else if state.stream.receives_by_channel() {
            let Some(link) = state.stream.link() else { return events | libc::POLLERR };
            if events & (IN | HANGUP) != 0 && link.is_readable() {
                found |= events & IN;
                if link.has_ended() {
                    found |= events & HANGUP;
                }
            }
        } else {
            by_tcp |= events & (IN | HANGUP);
        }
        if state.stream.sends_by_channel() {
            if events & OUT != 0 && state.stream.link().is_none_or(ChannelLink::is_writable) {
                found |= OUT;
            }
        } else if !state.stream.is_marking() {
            by_tcp |= events & OUT;
        }
        if by_tcp == 0 {
            return found;
        }
        let mut by_tcp = foreign::poll_now(state.tcp.0.as_raw_fd(), by_tcp);
        // What is there may be the marker alone.
        if by_tcp & IN != 0
            && by_tcp & (HANGUP | libc::POLLHUP | libc::POLLERR) == 0
            && matches!(state.stream.way_in(&mut state.tcp, 1), Ok(Way::Tcp(0)) | Err(libc::EAGAIN))
        {
            by_tcp &= !IN;
        }
        found | by_tcp
    }

    /// As [`Socket::watch`], for a thread that sleeps by itself, after [`bell::hush`].
    pub(crate) fn watch_asleep(&self, events: i16, watched: &mut Vec<Watched>) -> bool {
        if events & (IN | HANGUP) != 0 {
            watched.extend(self.sleepers.add().map(|bell| (bell, IN)));
        }
        self.watch(events, watched)
    }

    /// Prepares for a sleep until one of `events`, or the next step. Adds what to poll. Returns
    /// `true` if there may be something now.
    pub(crate) fn watch(&self, events: i16, watched: &mut Vec<Watched>) -> bool {
        let state = &mut *self.state();
        if self.step(state, true).is_err() {
            return true;
        }
        if state.is_deaf && events & (IN | HANGUP) != 0 {
            return true;
        }
        let (receives, sends) = (state.stream.receives_by_channel(), state.stream.sends_by_channel());
        if let Some(link) = state.stream.link() {
            let is_readable = receives && events & (IN | HANGUP) != 0 && link.is_readable();
            if is_readable || (sends && events & OUT != 0 && link.is_writable()) {
                return true;
            }
        }
        let mut on_tcp = 0;
        if !state.stream.receives_by_channel() {
            on_tcp |= IN;
        }
        if state.stream.is_marking() || (events & OUT != 0 && !state.stream.sends_by_channel()) {
            on_tcp |= OUT;
        }
        if !state.hung_up {
            // Another thread's shutdown shows here.
            let now = foreign::poll_now(state.tcp.0.as_raw_fd(), HANGUP);
            state.hung_up = now & (HANGUP | libc::POLLHUP | libc::POLLERR) != 0;
            on_tcp |= HANGUP;
        }
        if on_tcp & !HANGUP != 0 || !state.hung_up {
            let needless = if state.stream.receives_by_channel() { 0 } else { IN & !events };
            // Bytes that the program does not wait for stay there; a marker is waited for.
            let on_tcp = if state.stream.link().is_some() { on_tcp } else { on_tcp & !needless };
            watched.push((state.tcp.0.as_raw_fd(), on_tcp));
        }
        match &state.offer {
            Offer::Named(listener) => watched.push((listener.as_fd().as_raw_fd(), IN)),
            Offer::Opening(_, _, opening) => watched.push((opening.as_fd().as_raw_fd(), IN | OUT)),
            _ => {}
        }
        let (reads, writes) = (receives && events & (IN | HANGUP) != 0, sends && events & OUT != 0);
        let agrees = state.stream.is_agreeing();
        let Some(link) = state.stream.link() else { return false };
        // The peer may be waiting for room, too.
        let puts_aside = writes && receives && !reads && link.put_aside();
        self.rouse_if(writes && !reads && link.has_aside());
        let listens = agrees || reads || puts_aside;
        for file in [listens.then(|| link.arm_input()), writes.then(|| link.arm_output())] {
            match file {
                Some(Some(file)) => watched.push((file, IN)),
                Some(None) => return true,
                None => {}
            }
        }
        false
    }

    /// Bytes that can be received at once, if those are of the channel.
    pub(crate) fn available(&self) -> Option<usize> {
        let state = &mut *self.state();
        let by_channel = self.step(state, false).is_ok() && state.stream.receives_by_channel();
        by_channel.then(|| state.stream.link().map_or(0, ChannelLink::available))
    }

    /// Ends directions of the connection. Returns whether TCP has to end the sending one.
    pub(crate) fn shutdown(&self, receiving: bool, sending: bool) -> bool {
        self.sets.touch();
        let state = &mut *self.state();
        state.is_deaf |= receiving && state.stream.receives_by_channel();
        if !sending || state.stream.shut() {
            return sending;
        }
        self.end_sending(state);
        false
    }

    fn end_sending(&self, state: &mut State) {
        let deadline = Instant::now() + CLOSE_LIMIT;
        while state.stream.is_marking() && Instant::now() < deadline {
            if state.stream.advance(&mut state.tcp).is_err() {
                return;
            }
            let mut marking = [PollFd::from_borrowed_fd(state.tcp.0.as_fd(), PollFlags::OUT)];
            let _ = poll(&mut marking, Some(&Timespec { tv_sec: 0, tv_nsec: 50_000_000 }));
        }
        if let Some(link) = state.stream.link() {
            link.close_sender(CLOSE_LIMIT);
        }
    }

    /// The program has closed its last descriptor: all that it sent arrives.
    pub(crate) fn close(&self) {
        let state = &mut *self.state();
        let deadline = Instant::now() + CLOSE_LIMIT;
        // An error leaves nothing to deliver.
        let _ = self.step(state, false);
        if state.stream.is_guarded() {
            self.part_with_channel(state, deadline);
        }
        state.offer = Offer::None;
        if state.stream.has_switched() && state.failed.is_none() {
            self.end_sending(state);
        }
        state.stream.take_link();
        state.failed = Some(libc::EBADF);
        report::count(&report::TCP_BYTES, std::mem::take(&mut state.by_tcp));
        report::count(&report::CHANNEL_BYTES, std::mem::take(&mut state.by_channel));
    }

    /// Completes a switch that the other end has begun, or sees to it that none begins. The kernel
    /// drops what it has not sent yet if a connection is closed with a marker that was not
    /// received.
    fn part_with_channel(&self, state: &mut State, deadline: Instant) {
        while state.stream.awaits_marker() && Instant::now() < deadline {
            state.tcp.wait();
            if self.step(state, false).is_err() {
                return;
            }
        }
        if state.stream.has_switched() {
            return;
        }
        // Without a channel the other end sends no marker, unless it is doing so now.
        state.stream.take_link();
        while state.tcp.discard() && foreign::is_sending(state.tcp.0.as_raw_fd()) && Instant::now() < deadline
        {
            state.tcp.wait();
        }
    }

    /// This process is a child of the one whose connection this is: it may go on with TCP, but not
    /// with the parent's card. Returns `false` if nothing can be said of it.
    pub(crate) fn inherit(&self) -> bool {
        let Ok(mut state) = self.state.try_lock() else { return false };
        match std::mem::replace(&mut state.offer, Offer::None) {
            Offer::Later(name, peer) => state.offer = Offer::Later(name, peer),
            // Dropping these would release the parent's objects at the card.
            other => std::mem::forget(other),
        }
        std::mem::forget(state.stream.take_link());
        (state.by_tcp, state.by_channel) = (0, 0);
        if state.stream.has_switched() || state.stream.is_guarded() {
            state.failed = Some(libc::ECONNABORTED);
        }
        self.settle(&mut state);
        true
    }
}
