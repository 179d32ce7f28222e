//! Memory that the card, another process or another thread may change at any time.
//!
//! No reference to plain bytes in it is ever given out, only to atomics ([`Mapping::cells`]). Bytes
//! are copied in and out by relaxed atomic accesses, so a change under way gives mixed bytes and no
//! torn words. That is what the machine does. Rust's memory model promises less: it says nothing of
//! what another process or a card does to this memory, and it allows threads of this process to
//! reach the same bytes at the same time by atomics of one size only. Here a copy goes by 8 bytes,
//! and by 1 at its ragged ends, so two threads that copy to and from overlapping bytes at once,
//! with other ends, rely on the compiler making plain loads and stores of relaxed atomics, as all
//! do. The library does not do so by itself: what has arrived is not written again while it is
//! lent, and what is being sent is not written to.

use std::io;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise};

mod copy;
mod held;
mod lent;
mod parts;
mod registers;
mod shown;
mod strings;
mod words;

pub use copy::KeptCopy;
pub use held::HeldWords;
use lent::Keeper;
pub use registers::{register_copy_in, register_copy_out};
pub use strings::{copy_in, copy_out};
pub use words::{Word, look};

/// Whether a mapping may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores only (a doorbell page); loads are not made.
    Write,
    /// Loads and stores.
    ReadWrite,
}

impl Access {
    fn protection(self) -> ProtFlags {
        match self {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::WRITE,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        }
    }
}

/// A piece of mapped memory, unmapped when dropped; or bytes that a value of the application's owns
/// ([`Mapping::over`]).
///
/// Offsets are in bytes from its start. As with slices, an access outside of it, a misaligned one,
/// or one that [`Access`] does not allow is a mistake of the caller and panics; what depends on
/// input is checked before.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    access: Access,
    keeper: Keeper,
    /// The application's own pages are a file's for now.
    shared: bool,
}

// SAFETY: the memory is reached through atomic accesses only, and given up once, by the last owner;
// a value that keeps it is `Send`, and nobody looks at it.
unsafe impl Send for Mapping {}
// SAFETY: as above: every access through a shared reference is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Page-aligned, zeroed memory of this process, `length` bytes.
    ///
    /// # Errors
    /// Those of `mmap(2)`; `EINVAL` for a length of zero.
    pub fn anonymous(length: usize) -> io::Result<Self> {
        let access = Access::ReadWrite;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, access.protection(), MapFlags::PRIVATE)?
        };
        Self::new(start.cast(), length, access)
    }

    /// Asks the kernel for huge pages for the first `length` bytes of [`Mapping::anonymous`]
    /// memory, before they are touched. One that has none, or none left, gives small ones.
    pub fn prefer_huge_pages(&self, length: usize) {
        let length = length.min(self.length);
        // SAFETY: inside the mapping; the advice changes no byte.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), length, Advice::LinuxHugepage) };
    }

    /// Tells the kernel that [`Mapping::anonymous`] memory is not needed soon: its pages may go to
    /// swap space.
    ///
    /// # Errors
    /// Those of `madvise(2)`.
    pub fn page_out(&self) -> io::Result<()> {
        // SAFETY: the mapping itself; the advice changes no byte.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxPageOut) }?)
    }

    /// Gives the pages of [`Mapping::anonymous`] memory back: those that are touched again are
    /// zero.
    ///
    /// # Errors
    /// `EINVAL` for memory that is not this mapping's own; those of `madvise(2)`.
    pub fn discard(&self) -> io::Result<()> {
        if !matches!(self.keeper, Keeper::Kernel) || self.shared {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the mapping itself, whose bytes are reached as atomics alone, any of which may
        // become zero.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxDontNeed) }?)
    }

    /// `length` bytes of `file` from `offset`, shared with everybody who maps them.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn of_file(file: impl AsFd, offset: u64, length: usize, access: Access) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                access.protection(),
                MapFlags::SHARED,
                file.as_fd(),
                offset,
            )?
        };
        Self::new(start.cast(), length, access)
    }

    fn new(start: *mut u8, length: usize, access: Access) -> io::Result<Self> {
        match NonNull::new(start) {
            Some(start) => Ok(Self { start, length, access, keeper: Keeper::Kernel, shared: false }),
            None => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
        }
    }

    /// Where it starts in this process' address space.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// How many bytes it has.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// The u32 at `offset`.
    #[must_use]
    #[inline]
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.u32_at(offset, false).load(Ordering::Relaxed)
    }

    /// The u32 at `offset`; what its writer stored before it is seen by loads after this one.
    #[must_use]
    #[inline]
    pub fn load_u32_acquire(&self, offset: usize) -> u32 {
        self.u32_at(offset, false).load(Ordering::Acquire)
    }

    /// Stores a u32 at `offset`.
    #[inline]
    pub fn store_u32(&self, offset: usize, value: u32) {
        self.u32_at(offset, true).store(value, Ordering::Relaxed);
    }

    /// Stores a u32 at `offset`; who sees it also sees every store before it.
    #[inline]
    pub fn store_u32_release(&self, offset: usize, value: u32) {
        self.u32_at(offset, true).store(value, Ordering::Release);
    }

    /// The u64 at `offset`.
    #[must_use]
    #[inline]
    pub fn load_u64(&self, offset: usize) -> u64 {
        self.u64_at(offset, false).load(Ordering::Relaxed)
    }

    /// Stores a u64 at `offset`.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.u64_at(offset, true).store(value, Ordering::Relaxed);
    }

    /// Stores a u64 at `offset`; who sees it also sees every store before it.
    #[inline]
    pub fn store_u64_release(&self, offset: usize, value: u64) {
        self.u64_at(offset, true).store(value, Ordering::Release);
    }

    /// Copies bytes from `offset` out.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let start = self.check(offset, to.len(), false);
        let (head, words) = split(start as usize, to.len());
        let (bytes, rest) = to.split_at_mut(head);
        let (middle, tail) = rest.split_at_mut(words * 8);
        load_bytes(start, bytes);
        for (index, chunk) in middle.chunks_exact_mut(8).enumerate() {
            let address = start.wrapping_add(head + index * 8).cast();
            // SAFETY: inside what was checked, aligned by `split`, and every access to it is
            // atomic.
            let word = unsafe { AtomicU64::from_ptr(address) }.load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        load_bytes(start.wrapping_add(head + words * 8), tail);
    }

    /// Copies bytes in, from `offset` on, in rising order.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let start = self.check(offset, from.len(), true);
        let (head, words) = split(start as usize, from.len());
        let (bytes, rest) = from.split_at(head);
        let (middle, tail) = rest.split_at(words * 8);
        store_bytes(start, bytes);
        for (index, chunk) in middle.chunks_exact(8).enumerate() {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            let address = start.wrapping_add(head + index * 8).cast();
            // SAFETY: inside what was checked, aligned by `split`, and every access to it is
            // atomic.
            unsafe { AtomicU64::from_ptr(address) }.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        store_bytes(start.wrapping_add(head + words * 8), tail);
    }

    /// So many bytes from `offset` on, in place: each is loaded and stored by itself.
    #[must_use]
    pub fn cells(&self, offset: usize, length: usize) -> &[AtomicU8] {
        // It may be both loaded and stored.
        self.check(offset, length, true);
        let start = self.check(offset, length, false);
        // SAFETY: inside the mapping, which `&self` keeps; atomics may be changed by others, and
        // any byte is one.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    /// Whether `length` bytes at `address` of this process' address space lie inside.
    #[must_use]
    pub fn contains(&self, address: u64, length: u64) -> bool {
        let end = self.address() + self.length as u64;
        address >= self.address() && address.checked_add(length).is_some_and(|last| last <= end)
    }

    /// The place of `count` structures at the mapping's start, if they lie inside and `access` is
    /// allowed.
    fn first_of<T>(&self, count: usize, access: Access) -> io::Result<NonNull<T>> {
        let start: NonNull<T> = self.start.cast();
        let inside = size_of::<T>().checked_mul(count).is_some_and(|size| size <= self.length);
        let allowed = self.access == access || self.access == Access::ReadWrite;
        if !inside || !allowed || !start.is_aligned() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(start)
    }

    /// Checks an access and gives its address.
    #[inline]
    fn check(&self, offset: usize, size: usize, store: bool) -> *mut u8 {
        let allowed = if store { Access::Read } else { Access::Write };
        assert!(self.access != allowed, "{:?} mapping does not allow this access", self.access);
        assert!(
            offset.checked_add(size).is_some_and(|end| end <= self.length),
            "{size} bytes at {offset} lie outside a mapping of {} bytes",
            self.length
        );
        self.start.as_ptr().wrapping_add(offset)
    }

    #[inline]
    fn check_aligned(&self, offset: usize, size: usize, store: bool) -> *mut u8 {
        let address = self.check(offset, size, store);
        assert!(address as usize % size == 0, "{size} bytes at {offset} are misaligned");
        address
    }

    #[inline]
    fn u32_at(&self, offset: usize, store: bool) -> &AtomicU32 {
        let address = self.check_aligned(offset, 4, store).cast();
        // SAFETY: inside the mapping, aligned, and every access to it is atomic.
        unsafe { AtomicU32::from_ptr(address) }
    }

    #[inline]
    fn u64_at(&self, offset: usize, store: bool) -> &AtomicU64 {
        let address = self.check_aligned(offset, 8, store).cast();
        // SAFETY: inside the mapping, aligned, and every access to it is atomic.
        unsafe { AtomicU64::from_ptr(address) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// What may be laid over mapped memory.
///
/// # Safety
/// Every field is an atomic integer, so that any bytes are a value and others may change them, and
/// there is no padding.
pub(crate) unsafe trait Atomics {}

// SAFETY: an atomic integer.
unsafe impl Atomics for AtomicU32 {}
// SAFETY: as above.
unsafe impl Atomics for AtomicU64 {}
// SAFETY: elements of a slice lie side by side.
unsafe impl<T: Atomics> Atomics for [T] {}

/// A structure at a mapping's start. That it lies inside, is aligned and may be accessed is checked
/// when it is made, so that nothing is left to check on the data path.
#[derive(Debug)]
pub(crate) struct View<T: Atomics + ?Sized> {
    start: NonNull<T>,
    _mapping: Arc<Mapping>,
}

// SAFETY: a view is a mapping and a shared reference to atomics in it, which is why `Atomics` asks
// for them.
unsafe impl<T: Atomics + ?Sized> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: Atomics + ?Sized> Sync for View<T> {}

impl<T: Atomics> View<T> {
    /// The structure. `EINVAL` if the mapping is smaller, or does not allow `access`.
    pub(crate) fn new(mapping: Arc<Mapping>, access: Access) -> io::Result<Self> {
        let start = mapping.first_of(1, access)?;
        Ok(Self { start, _mapping: mapping })
    }
}

impl<T: Atomics> View<[T]> {
    /// So many structures, one behind the other. `EINVAL` if the mapping is smaller, or does not
    /// allow `access`.
    pub(crate) fn slice(mapping: Arc<Mapping>, count: usize, access: Access) -> io::Result<Self> {
        let start = mapping.first_of(count, access)?;
        Ok(Self { start: NonNull::slice_from_raw_parts(start, count), _mapping: mapping })
    }
}

impl<T: Atomics + ?Sized> Deref for View<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `Mapping::first_of` has checked the place, which stays mapped for as long as
        // `self`; `Atomics` makes any bytes there a value, whoever changes them.
        unsafe { self.start.as_ref() }
    }
}

/// Copies bytes one by one; `Mapping::check` has been asked.
fn load_bytes(start: *mut u8, to: &mut [u8]) {
    for (index, byte) in to.iter_mut().enumerate() {
        // SAFETY: inside what was checked, and every access to it is atomic.
        *byte = unsafe { AtomicU8::from_ptr(start.wrapping_add(index)) }.load(Ordering::Relaxed);
    }
}

/// Copies bytes one by one; `Mapping::check` has been asked.
fn store_bytes(start: *mut u8, from: &[u8]) {
    for (index, byte) in from.iter().enumerate() {
        // SAFETY: inside what was checked, and every access to it is atomic.
        unsafe { AtomicU8::from_ptr(start.wrapping_add(index)) }.store(*byte, Ordering::Relaxed);
    }
}

/// How many single bytes come before the first aligned word at or behind `address`, and how many
/// words follow.
fn split(address: usize, length: usize) -> (usize, usize) {
    let head = (address.wrapping_neg() % 8).min(length);
    (head, (length - head) / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_at_any_alignment() {
        let mapping = Mapping::anonymous(4096).unwrap();
        let bytes: Vec<u8> = (1..=100).collect();
        for offset in 0..17 {
            for length in 0..bytes.len() {
                mapping.write(offset, &[0; 120]);
                mapping.write(offset, &bytes[..length]);
                let mut back = vec![0xff; length + 1];
                mapping.read(offset, &mut back);
                assert_eq!(back[..length], bytes[..length]);
                assert_eq!(back[length], 0, "nothing behind the end is written");
            }
        }
    }

    #[test]
    #[should_panic(expected = "outside a mapping of 4096 bytes")]
    fn an_access_outside_is_stopped() {
        let _ = Mapping::anonymous(4096).unwrap().load_u32(4096);
    }

    #[test]
    #[should_panic(expected = "does not allow")]
    fn a_store_into_a_read_only_mapping_is_stopped() {
        let file = tempfile();
        Mapping::of_file(&file, 0, 4096, Access::Read).unwrap().store_u32(0, 1);
    }

    #[test]
    fn a_file_is_shared_between_its_mappings() {
        let file = tempfile();
        let one = Mapping::of_file(&file, 0, 4096, Access::ReadWrite).unwrap();
        let other = Mapping::of_file(&file, 0, 4096, Access::Read).unwrap();
        one.store_u32_release(8, 77);
        assert_eq!(other.load_u32_acquire(8), 77);
    }

    fn tempfile() -> rustix::fd::OwnedFd {
        let file = rustix::fs::memfd_create("mapping-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        file
    }
}
