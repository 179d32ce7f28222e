//! What this library knows of the program's descriptors.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard, TryLockError};
use std::thread;

use crate::epoll::Epoll;
use crate::socket::Socket;

/// Descriptors of a chunk, and chunks: the kernel's usual limit is a million descriptors.
const CHUNK: usize = 512;
const CHUNKS: usize = 2048;

/// What descriptors stand for.
#[derive(Debug)]
pub(crate) enum Object {
    Socket(Arc<Socket>),
    Epoll(Arc<Epoll>),
}

/// An object and its number of descriptors in the program.
#[derive(Debug)]
struct Entry {
    object: Object,
    descriptors: AtomicU32,
}

/// An object that the program has open.
#[derive(Debug, Clone)]
pub(crate) struct Open(Arc<Entry>);

#[derive(Debug, Default)]
struct Slot {
    /// [`NONE`], [`SOCKET`] or [`EPOLL`], without a lock: most descriptors are none of ours.
    kind: AtomicU8,
    open: RwLock<Option<Open>>,
}

const NONE: u8 = 0;
const SOCKET: u8 = 1;
const EPOLL: u8 = 2;
/// Attempts to lock a slot, which threads have for an instant. In a child, one that another thread
/// of the parent had at the fork stays locked.
const ATTEMPTS: u32 = 10_000;

static CHUNK_TABLE: [OnceLock<Box<[Slot]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];

impl Open {
    pub(crate) fn new(object: Object) -> Self {
        Self(Arc::new(Entry { object, descriptors: AtomicU32::new(0) }))
    }

    pub(crate) fn socket(&self) -> Option<&Arc<Socket>> {
        if let Object::Socket(socket) = &self.0.object { Some(socket) } else { None }
    }

    pub(crate) fn epoll(&self) -> Option<&Arc<Epoll>> {
        if let Object::Epoll(epoll) = &self.0.object { Some(epoll) } else { None }
    }
}

fn slot(fd: RawFd) -> Option<&'static Slot> {
    let at = usize::try_from(fd).ok()?;
    CHUNK_TABLE.get(at / CHUNK)?.get()?.get(at % CHUNK)
}

/// Whether a descriptor may be more than the kernel's. Without a lock.
#[inline]
pub(crate) fn is_used(fd: RawFd) -> bool {
    slot(fd).is_some_and(|slot| slot.kind.load(Ordering::Acquire) != NONE)
}

/// Returns what a descriptor stands for, if it is more than the kernel's.
#[inline]
pub(crate) fn get(fd: RawFd) -> Option<Open> {
    let slot = slot(fd)?;
    if slot.kind.load(Ordering::Acquire) == NONE {
        return None;
    }
    slot.open.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the connection behind a descriptor, unless all goes by TCP for good.
#[inline]
pub(crate) fn socket(fd: RawFd) -> Option<Open> {
    get(fd).filter(|open| open.socket().is_some_and(|socket| !socket.is_plain()))
}

/// Sets what a descriptor stands for. Returns what it stood for, if that was its last descriptor.
pub(crate) fn put(fd: RawFd, open: Option<Open>) -> Option<Open> {
    let at = usize::try_from(fd).ok()?;
    if open.is_none() {
        slot(fd)?;
    }
    let chunk = CHUNK_TABLE.get(at / CHUNK)?.get_or_init(|| (0..CHUNK).map(|_| Slot::default()).collect());
    let slot = &chunk[at % CHUNK];
    let kind = match open.as_ref().map(|open| &open.0.object) {
        None => NONE,
        Some(Object::Socket(_)) => SOCKET,
        Some(Object::Epoll(_)) => EPOLL,
    };
    let Some(mut place) = slot.lock() else {
        slot.kind.store(NONE, Ordering::Release);
        return None;
    };
    if let Some(open) = &open {
        open.0.descriptors.fetch_add(1, Ordering::Relaxed);
    }
    slot.kind.store(kind, Ordering::Release);
    let before = std::mem::replace(&mut *place, open);
    before.filter(|before| before.0.descriptors.fetch_sub(1, Ordering::AcqRel) == 1)
}

impl Slot {
    fn lock(&self) -> Option<RwLockWriteGuard<'_, Option<Open>>> {
        (0..ATTEMPTS).find_map(|_| match self.open.try_write() {
            Ok(open) => Some(open),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => {
                thread::yield_now();
                None
            }
        })
    }
}

/// The slots that are used, with their descriptors.
fn used() -> impl Iterator<Item = (RawFd, &'static Slot)> {
    let chunks = CHUNK_TABLE.iter().enumerate();
    let slots = chunks.flat_map(|(chunk, slots)| {
        let numbered = slots.get().into_iter().flatten().enumerate();
        numbered.map(move |(place, slot)| ((chunk * CHUNK + place) as RawFd, slot))
    });
    slots.filter(|(_, slot)| slot.kind.load(Ordering::Acquire) != NONE)
}

/// Returns the descriptors from `first` to `last` that are more than the kernel's.
pub(crate) fn between(first: RawFd, last: RawFd) -> Vec<RawFd> {
    used().map(|(fd, _)| fd).filter(|fd| (first..=last).contains(fd)).collect()
}

/// Returns all sets of epoll.
pub(crate) fn epolls() -> Vec<Arc<Epoll>> {
    let sets = used().filter(|(_, slot)| slot.kind.load(Ordering::Acquire) == EPOLL);
    sets.filter_map(|(fd, _)| get(fd)?.epoll().cloned()).collect()
}

/// In a child: keeps the connections that `keep` says, and forgets the rest. Drops nothing, as that
/// could end what is the parent's.
pub(crate) fn inherit(keep: impl Fn(&Socket) -> bool) {
    for (_, slot) in used() {
        let Ok(mut open) = slot.open.try_write() else {
            slot.kind.store(NONE, Ordering::Release);
            continue;
        };
        if !open.as_ref().and_then(Open::socket).is_some_and(|socket| keep(socket)) {
            slot.kind.store(NONE, Ordering::Release);
            std::mem::forget(open.take());
        }
    }
}
