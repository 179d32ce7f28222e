//! A set of epoll(7) in which connections may be that go over channels.
//!
//! Such connections are not in the kernel's set. Those that had something lately are *active*, and
//! are looked at in memory. The others are armed: their files are in a second set of the kernel,
//! `inner`, which the program's set contains. So a wait costs the active ones, however many sleep.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hamlyn::{Poller, Polling};

use crate::foreign::{self, Answer, Mask};
use crate::socket::{ALWAYS, Socket, Watched, Watcher};

/// Waits that find something in memory between two looks at the kernel's set.
const MEMORY_FIRST: u32 = 8;
/// Looks at memory between two looks at the kernel's set, while nothing comes.
const LOOKS: u32 = 64;
/// Events of `inner` that are taken at once.
const TAKEN: usize = 64;

const EDGE: u32 = libc::EPOLLET as u32;
const ONCE: u32 = libc::EPOLLONESHOT as u32;

#[derive(Debug)]
pub(crate) struct Epoll {
    set: RawFd,
    own: Weak<Self>,
    /// The value by which the program's set reports `inner`.
    tag: u64,
    state: Mutex<State>,
    poller: Poller,
}

#[derive(Debug, Default)]
struct State {
    inner: Option<Inner>,
    members: HashMap<RawFd, Member>,
    /// Members to look at, each once.
    active: Vec<RawFd>,
    /// Where the next look begins, so that each gets its turn.
    turn: usize,
    /// What the program has added of other descriptors, or believes to have.
    others: HashMap<RawFd, libc::epoll_event>,
    memory_waits: u32,
    came: bool,
}

/// The second set.
#[derive(Debug)]
struct Inner {
    set: OwnedFd,
    /// Which member has each file. The number of one that was closed may be another's by now.
    owners: HashMap<RawFd, RawFd>,
}

#[derive(Debug)]
struct Member {
    fd: RawFd,
    socket: Arc<Socket>,
    events: u32,
    data: u64,
    is_active: bool,
    /// Reported once, with [`ONCE`].
    is_disabled: bool,
    /// With [`EDGE`]: what was reported, when the socket's calls stood so.
    told: (i16, [u32; 2]),
    /// Files in `inner`, when the socket's changes stood so.
    files: Vec<Watched>,
    changes: u64,
}

impl Member {
    /// The events that the program has not been told of.
    fn wanted(&self) -> i16 {
        if self.is_disabled {
            return 0;
        }
        let wanted = self.events as i16;
        if self.events & EDGE == 0 {
            return wanted;
        }
        let (told, [reads, writes]) = self.told;
        let [reads_now, writes_now] = self.socket.calls();
        let reads = if reads == reads_now { libc::POLLIN | libc::POLLRDHUP } else { 0 };
        let writes = if writes == writes_now { libc::POLLOUT } else { 0 };
        wanted & !(told & (reads | writes))
    }
}

impl Epoll {
    pub(crate) fn new(set: RawFd) -> Arc<Self> {
        let tag = hamlyn::random_key().unwrap_or(u64::MAX);
        Arc::new_cyclic(|own| Self {
            set,
            own: own.clone(),
            tag,
            state: Mutex::default(),
            poller: Poller::new(Polling::default()),
        })
    }

    fn as_watcher(&self) -> Weak<dyn Watcher> {
        self.own.clone()
    }

    /// Whether a connection is in it that may go over a channel.
    pub(crate) fn has_members(&self) -> bool {
        !self.state().members.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// epoll_ctl(2) for a connection that may go over a channel.
    pub(crate) fn control(
        &self,
        operation: i32,
        fd: RawFd,
        socket: &Arc<Socket>,
        event: libc::epoll_event,
    ) -> Answer<()> {
        let mut state = self.state();
        match operation {
            libc::EPOLL_CTL_ADD if state.members.contains_key(&fd) => Err(libc::EEXIST),
            // The caller has the kernel add it.
            libc::EPOLL_CTL_ADD if socket.is_plain() => Err(libc::ENOENT),
            // It stays on TCP since the last wait, and the kernel's set does not have it yet.
            libc::EPOLL_CTL_MOD if socket.is_plain() => {
                let removed = state.remove(fd).ok_or(libc::ENOENT)?;
                removed.socket.sets.remove(&self.as_watcher(), fd);
                state.others.insert(fd, event);
                foreign::epoll_ctl(self.set, libc::EPOLL_CTL_ADD, fd, event).map(drop)
            }
            libc::EPOLL_CTL_ADD => self.add(&mut state, fd, socket.clone(), event),
            libc::EPOLL_CTL_MOD => {
                let member = state.members.get_mut(&fd).ok_or(libc::ENOENT)?;
                (member.events, member.data) = (event.events, event.u64);
                (member.is_disabled, member.told) = (false, (0, [0; 2]));
                state.activate(fd);
                Ok(())
            }
            libc::EPOLL_CTL_DEL => {
                let removed = state.remove(fd).ok_or(libc::ENOENT)?;
                removed.socket.sets.remove(&self.as_watcher(), fd);
                Ok(())
            }
            _ => Err(libc::EINVAL),
        }
    }

    fn add(&self, state: &mut State, fd: RawFd, socket: Arc<Socket>, event: libc::epoll_event) -> Answer<()> {
        if state.inner.is_none() {
            let inner = foreign::epoll_create().ok_or(libc::EMFILE)?;
            let tagged = libc::epoll_event { events: libc::EPOLLIN as u32, u64: self.tag };
            foreign::epoll_ctl(self.set, libc::EPOLL_CTL_ADD, inner.as_raw_fd(), tagged)?;
            state.inner = Some(Inner { set: inner, owners: HashMap::new() });
        }
        socket.sets.add(self.as_watcher(), fd);
        let member = Member {
            fd,
            socket,
            events: event.events,
            data: event.u64,
            is_active: false,
            is_disabled: false,
            told: (0, [0; 2]),
            files: Vec::new(),
            changes: 0,
        };
        state.members.insert(fd, member);
        state.activate(fd);
        Ok(())
    }

    /// Notes what the program did with another descriptor.
    pub(crate) fn note(&self, operation: i32, fd: RawFd, event: libc::epoll_event) {
        let mut state = self.state();
        if operation == libc::EPOLL_CTL_DEL {
            state.others.remove(&fd);
        } else {
            state.others.insert(fd, event);
        }
    }

    /// A descriptor that the program may have added has become a connection of the fabric.
    pub(crate) fn adopt(&self, fd: RawFd, socket: &Arc<Socket>) {
        let mut state = self.state();
        let Some(event) = state.others.remove(&fd) else { return };
        if foreign::epoll_ctl(self.set, libc::EPOLL_CTL_DEL, fd, event).is_ok() {
            // At worst the program waits in vain for one that it cannot have: no file is left.
            let _ = self.add(&mut state, fd, socket.clone(), event);
        }
    }

    /// Whether one of the connections has something for the program.
    pub(crate) fn is_ready(&self) -> bool {
        self.state().is_ready()
    }

    /// Prepares for a sleep at the program's set. Returns `true` if there may be something.
    pub(crate) fn arm(&self) -> bool {
        self.state().arm(self.set)
    }

    /// epoll_wait(2).
    pub(crate) fn wait(
        &self,
        events: &mut [libc::epoll_event],
        timeout: Option<Duration>,
        mask: Mask,
    ) -> Answer {
        let mut end = None;
        loop {
            let (mut found, looks) = self.state().collect(events);
            // No system call and no clock while what comes next comes soon.
            if found == 0 && timeout != Some(Duration::ZERO) && self.spin() {
                continue;
            }
            if found < events.len() && (found == 0 || looks) {
                found += self.kernels(&mut events[found..], Some(Duration::ZERO), mask)?;
            }
            if found > 0 {
                return Ok(found);
            }
            let end = *end.get_or_insert_with(|| timeout.map(|timeout| Instant::now() + timeout));
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(0);
            }
            if self.arm() {
                continue;
            }
            let found = self.kernels(events, left, mask)?;
            if found > 0 {
                return Ok(found);
            }
        }
    }

    /// Polls memory for a while. Returns whether there is something.
    fn spin(&self) -> bool {
        let (spins, came) = {
            let mut state = self.state();
            (state.spins(), std::mem::take(&mut state.came))
        };
        if !spins {
            return false;
        }
        let mut looks = 0;
        let found = self.poller.poll_before_arming(came, || {
            looks += 1;
            self.is_ready() || (looks % LOOKS == 0 && foreign::poll_now(self.set, libc::POLLIN) != 0)
        });
        if found {
            self.state().came = true;
        }
        found
    }

    /// Takes events of the kernel's set. Those of `inner` make their connections active.
    fn kernels(&self, events: &mut [libc::epoll_event], left: Option<Duration>, mask: Mask) -> Answer {
        let found = foreign::epoll_wait(self.set, events, left, mask)?;
        let Some(tagged) = events[..found].iter().position(|event| { event.u64 } == self.tag) else {
            return Ok(found);
        };
        events[..found].copy_within(tagged + 1.., tagged);
        self.state().wake();
        Ok(found - 1)
    }
}

impl Watcher for Epoll {
    fn touch(&self, fd: RawFd) {
        self.state().activate(fd);
    }

    fn forget(&self, fd: RawFd) {
        let mut state = self.state();
        state.others.remove(&fd);
        if let Some(member) = state.remove(fd) {
            member.socket.sets.remove(&self.as_watcher(), fd);
        }
    }
}

impl State {
    fn activate(&mut self, fd: RawFd) {
        if let Some(member) = self.members.get_mut(&fd).filter(|member| !member.is_active) {
            member.is_active = true;
            self.active.push(fd);
        }
    }

    fn remove(&mut self, fd: RawFd) -> Option<Member> {
        let member = self.members.remove(&fd)?;
        self.active.retain(|active| *active != fd);
        if let Some(inner) = &mut self.inner {
            inner.unwatch(fd, &member.files);
        }
        Some(member)
    }

    /// Fills in events of active members. Returns their number, and whether the kernel's are due.
    fn collect(&mut self, events: &mut [libc::epoll_event]) -> (usize, bool) {
        let mut found = 0;
        let active = self.active.len();
        self.turn = if active == 0 { 0 } else { self.turn % active };
        for place in 0..active {
            if found == events.len() {
                self.turn += place;
                break;
            }
            let fd = self.active[(self.turn + place) % active];
            let Some(member) = self.members.get_mut(&fd) else { continue };
            let ready = member.ready();
            if ready != 0 {
                events[found] = libc::epoll_event { events: ready as u16 as u32, u64: member.data };
                found += 1;
                member.is_disabled = member.events & ONCE != 0;
            }
        }
        self.came |= found > 0;
        self.memory_waits = if found > 0 { self.memory_waits + 1 } else { 0 };
        (found, self.memory_waits % MEMORY_FIRST == 0)
    }

    fn is_ready(&self) -> bool {
        let ready = |fd: &RawFd| {
            self.members.get(fd).is_some_and(|member| {
                let wanted = member.wanted();
                !member.is_disabled && member.socket.readiness(wanted) & (wanted | ALWAYS) != 0
            })
        };
        self.active.iter().any(ready)
    }

    fn spins(&self) -> bool {
        let spins = |fd: &RawFd| {
            let member = self.members.get(fd);
            member.is_some_and(|member| member.socket.spins(member.events as i16))
        };
        self.active.iter().any(spins)
    }

    /// Arms all active members. Returns `true` if one of them may have something.
    fn arm(&mut self, set: RawFd) -> bool {
        let Some(inner) = &mut self.inner else { return false };
        let mut ready = false;
        let mut kept = Vec::new();
        for fd in std::mem::take(&mut self.active) {
            let Some(member) = self.members.get_mut(&fd) else { continue };
            let socket = member.socket.clone();
            if socket.is_plain() {
                // The kernel's set is enough, as soon as it is waited for.
                inner.unwatch(fd, &std::mem::take(&mut member.files));
                if member.is_disabled {
                    member.is_active = false;
                    continue;
                }
                let event = libc::epoll_event { events: member.events, u64: member.data };
                // Fails if the program has closed the descriptor: then nothing is left.
                let _ = foreign::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, event);
                self.others.insert(fd, event);
                self.members.remove(&fd);
                ready = true;
                continue;
            }
            let mut watched = Vec::with_capacity(4);
            socket.sets.arm();
            if member.is_disabled || !socket.watch(member.wanted(), &mut watched) {
                member.watch(inner, watched);
                member.is_active = false;
            } else {
                ready = true;
                kept.push(fd);
            }
        }
        self.active.extend(kept);
        ready
    }

    /// Makes the members active whose files are readable.
    fn wake(&mut self) {
        let Some(inner) = &self.inner else { return };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; TAKEN];
        let found = foreign::epoll_wait(inner.set.as_raw_fd(), &mut events, Some(Duration::ZERO), None);
        for event in &events[..found.unwrap_or(0)] {
            self.activate(event.u64 as RawFd);
        }
    }
}

impl Member {
    /// Returns the events to report now, and notes them.
    fn ready(&mut self) -> i16 {
        let wanted = self.wanted();
        if self.is_disabled {
            return 0;
        }
        let now = self.socket.readiness(self.events as i16);
        let news = now & (wanted | ALWAYS);
        // An error is told once to those that want edges.
        let told = self.told.0 & ALWAYS & !(libc::POLLIN | libc::POLLOUT);
        if news == 0 || (self.events & EDGE != 0 && news & !told == 0) {
            return 0;
        }
        let all = now & (self.events as i16 | ALWAYS);
        self.told = (all, self.socket.calls());
        all
    }

    /// Has `inner` report these files for this member, and no others.
    fn watch(&mut self, inner: &mut Inner, watched: Vec<Watched>) {
        let changes = self.socket.changes();
        if self.changes == changes && self.files == watched {
            return;
        }
        let gone: Vec<Watched> =
            self.files.iter().filter(|old| watched.iter().all(|new| new.0 != old.0)).copied().collect();
        inner.unwatch(self.fd, &gone);
        watched.iter().for_each(|file| inner.watch(self.fd, *file));
        (self.files, self.changes) = (watched, changes);
    }
}

impl Inner {
    fn watch(&mut self, member: RawFd, (file, events): Watched) {
        self.owners.insert(file, member);
        let event = libc::epoll_event { events: events as u16 as u32, u64: member as u64 };
        let set = self.set.as_raw_fd();
        if foreign::epoll_ctl(set, libc::EPOLL_CTL_ADD, file, event) == Err(libc::EEXIST) {
            let _ = foreign::epoll_ctl(set, libc::EPOLL_CTL_MOD, file, event);
        }
    }

    fn unwatch(&mut self, member: RawFd, files: &[Watched]) {
        for (file, _) in files.iter().filter(|(file, _)| self.owners.get(file) == Some(&member)) {
            let none = libc::epoll_event { events: 0, u64: 0 };
            // Fails for a file that was closed: the kernel has removed it.
            let _ = foreign::epoll_ctl(self.set.as_raw_fd(), libc::EPOLL_CTL_DEL, *file, none);
        }
        self.owners.retain(|file, owner| *owner != member || files.iter().all(|gone| gone.0 != *file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that no other test's file has.
    const NUMBER: RawFd = 900;

    #[test]
    fn number_of_a_closed_file_is_anothers() {
        let file = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).expect("a file");
        let copy = || rustix::io::fcntl_dupfd_cloexec(&file, NUMBER).expect("a copy");
        let mut inner = Inner { set: foreign::epoll_create().expect("a set"), owners: HashMap::default() };
        let first = copy();
        inner.watch(1, (first.as_raw_fd(), libc::POLLIN));
        drop(first);
        let second = copy();
        assert_eq!(second.as_raw_fd(), NUMBER);
        inner.watch(2, (NUMBER, libc::POLLIN));
        inner.unwatch(1, &[(NUMBER, libc::POLLIN)]);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        let mut found = || {
            let found = foreign::epoll_wait(inner.set.as_raw_fd(), &mut events, Some(Duration::ZERO), None);
            (found, { events[0].u64 })
        };
        assert_eq!(found(), (Ok(1), 2));
        inner.unwatch(2, &[(NUMBER, libc::POLLIN)]);
        let left = foreign::epoll_wait(inner.set.as_raw_fd(), &mut events, Some(Duration::ZERO), None);
        assert_eq!((left, inner.owners.len()), (Ok(0), 0));
    }
}
