//! What this library knows of the program's descriptors.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

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
    /// Without a lock: most descriptors are none of ours.
    is_used: AtomicBool,
    open: RwLock<Option<Open>>,
}

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
    slot(fd).is_some_and(|slot| slot.is_used.load(Ordering::Acquire))
}

/// Returns what a descriptor stands for, if it is more than the kernel's.
#[inline]
pub(crate) fn get(fd: RawFd) -> Option<Open> {
    let slot = slot(fd)?;
    if !slot.is_used.load(Ordering::Acquire) {
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
    if let Some(open) = &open {
        open.0.descriptors.fetch_add(1, Ordering::Relaxed);
    }
    let mut place = slot.open.write().unwrap_or_else(PoisonError::into_inner);
    slot.is_used.store(open.is_some(), Ordering::Release);
    let before = std::mem::replace(&mut *place, open);
    before.filter(|before| before.0.descriptors.fetch_sub(1, Ordering::AcqRel) == 1)
}

/// Calls `act` with each descriptor from `first` to `last` that is more than the kernel's.
pub(crate) fn each(first: RawFd, last: RawFd, mut act: impl FnMut(RawFd, Open)) {
    for (chunk, slots) in CHUNK_TABLE.iter().enumerate() {
        for (place, slot) in slots.get().into_iter().flatten().enumerate() {
            let fd = (chunk * CHUNK + place) as RawFd;
            if slot.is_used.load(Ordering::Acquire) && (first..=last).contains(&fd) {
                // A lock that another thread had at a fork stays locked: its object is lost.
                let open = slot.open.try_read().ok().and_then(|open| open.clone());
                open.into_iter().for_each(|open| act(fd, open));
            }
        }
    }
}

/// Forgets a descriptor of a parent, and drops nothing.
pub(crate) fn forget(fd: RawFd) {
    if let Some(slot) = slot(fd) {
        slot.is_used.store(false, Ordering::Release);
        if let Ok(mut open) = slot.open.try_write() {
            std::mem::forget(open.take());
        }
    }
}
