//! Memory that the card, another process or another thread may change at any time.
//!
//! References into it only refer to atomics ([`Mapping::cells`]), never to plain bytes. Bytes are
//! copied in and out by relaxed atomic accesses. So a concurrent change yields a mix of old and new
//! bytes, but no torn words.
//!
//! That is what the machine guarantees. Rust's memory model guarantees less. It does not cover what
//! another process or a card does to this memory. It also allows concurrent accesses of this
//! process' threads to the same bytes only by atomics of one size. A copy here uses accesses of 8
//! bytes, and of 1 byte at its unaligned ends. So two threads that concurrently copy overlapping
//! ranges with different ends rely on the compiler: it must translate relaxed atomics to plain
//! loads and stores, as all compilers do. The library itself never makes such copies: received data
//! is not written again while it is lent, and data that is being sent is not written to.

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
pub(crate) use registers::register_copy_words;
pub use registers::{register_copy_in, register_copy_out};
pub use strings::{copy_in, copy_out};
pub use words::{Word, look};

/// Accesses that a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Loads only.
    Read,
    /// Stores only (a doorbell page).
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

/// A piece of mapped memory, unmapped when dropped; or the bytes of an application's value
/// ([`Mapping::over`]).
///
/// Offsets are in bytes from the start. As with slices, accesses that are out of bounds, misaligned
/// or not allowed by [`Access`] are bugs of the caller and panic. Callers must validate values that
/// depend on input.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
    access: Access,
    keeper: Keeper,
    /// The application's pages are currently replaced by a file's.
    shared: bool,
}

// SAFETY: the memory is accessed through atomics only, and released once, by the last owner. A
// value that owns it is `Send`, and is not accessed meanwhile.
unsafe impl Send for Mapping {}
// SAFETY: as above: every access through a shared reference is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Allocates page-aligned, zeroed process memory, `length` bytes.
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
    /// memory, before they are touched. A kernel without free huge pages uses small ones.
    pub fn prefer_huge_pages(&self, length: usize) {
        let length = length.min(self.length);
        // SAFETY: inside the mapping; the advice changes no byte.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), length, Advice::LinuxHugepage) };
    }

    /// Tells the kernel that [`Mapping::anonymous`] memory is not needed soon, so that its pages
    /// may be swapped out.
    ///
    /// # Errors
    /// Those of `madvise(2)`.
    pub fn page_out(&self) -> io::Result<()> {
        // SAFETY: the mapping itself; the advice changes no byte.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxPageOut) }?)
    }

    /// Returns the pages of [`Mapping::anonymous`] memory to the kernel. Pages that are touched
    /// again are zero.
    ///
    /// # Errors
    /// `EINVAL` for memory that this mapping does not own; those of `madvise(2)`.
    pub fn discard(&self) -> io::Result<()> {
        if !matches!(self.keeper, Keeper::Kernel) || self.shared {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: the mapping itself, whose bytes are accessed as atomics only, any of which may
        // become zero.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.length, Advice::LinuxDontNeed) }?)
    }

    /// Maps `length` bytes of `file` from `offset`, shared with all other mappings of the file.
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

    /// Returns the start address in this process' address space.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Loads the u32 at `offset`.
    #[must_use]
    #[inline]
    pub fn load_u32(&self, offset: usize) -> u32 {
        self.u32_at(offset, false).load(Ordering::Relaxed)
    }

    /// Loads the u32 at `offset`. Later loads see what its writer stored before it.
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

    /// Stores a u32 at `offset`. An observer that sees it also sees every earlier store.
    #[inline]
    pub fn store_u32_release(&self, offset: usize, value: u32) {
        self.u32_at(offset, true).store(value, Ordering::Release);
    }

    /// Loads the u64 at `offset`.
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

    /// Stores a u64 at `offset`. An observer that sees it also sees every earlier store.
    #[inline]
    pub fn store_u64_release(&self, offset: usize, value: u64) {
        self.u64_at(offset, true).store(value, Ordering::Release);
    }

    /// Copies bytes out, starting at `offset`.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let start = self.check(offset, to.len(), false);
        let (head, words) = split(start as usize, to.len());
        let (bytes, rest) = to.split_at_mut(head);
        let (middle, tail) = rest.split_at_mut(words * 8);
        load_bytes(start, bytes);
        for (index, chunk) in middle.chunks_exact_mut(8).enumerate() {
            let address = start.wrapping_add(head + index * 8).cast();
            // SAFETY: inside the checked range, aligned by `split`, and every access to it is
            // atomic.
            let word = unsafe { AtomicU64::from_ptr(address) }.load(Ordering::Relaxed);
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        load_bytes(start.wrapping_add(head + words * 8), tail);
    }

    /// Copies bytes in, starting at `offset`, in ascending order.
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
            // SAFETY: inside the checked range, aligned by `split`, and every access to it is
            // atomic.
            unsafe { AtomicU64::from_ptr(address) }.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        store_bytes(start.wrapping_add(head + words * 8), tail);
    }

    /// Returns `length` bytes in place, starting at `offset`, as single atomics.
    #[must_use]
    pub fn cells(&self, offset: usize, length: usize) -> &[AtomicU8] {
        // Both loads and stores must be allowed.
        self.check(offset, length, true);
        let start = self.check(offset, length, false);
        // SAFETY: inside the mapping, which `&self` keeps alive. Atomics may be changed by others,
        // and any byte is a valid one.
        unsafe { std::slice::from_raw_parts(start.cast(), length) }
    }

    /// Returns whether `length` bytes at `address` of this process' address space lie inside.
    #[must_use]
    pub fn contains(&self, address: u64, length: u64) -> bool {
        let end = self.address() + self.length as u64;
        address >= self.address() && address.checked_add(length).is_some_and(|last| last <= end)
    }

    /// Returns the address of `count` structures at the mapping's start. Fails with `EINVAL` if
    /// they do not lie inside or `access` is not allowed.
    fn first_of<T>(&self, count: usize, access: Access) -> io::Result<NonNull<T>> {
        let start: NonNull<T> = self.start.cast();
        let inside = size_of::<T>().checked_mul(count).is_some_and(|size| size <= self.length);
        let allowed = self.access == access || self.access == Access::ReadWrite;
        if !inside || !allowed || !start.is_aligned() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(start)
    }

    /// Checks an access and returns its address.
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

/// A type that may be laid over mapped memory.
///
/// # Safety
/// Every field must be an atomic integer, so that any bytes are valid and others may change them,
/// and there must be no padding.
pub(crate) unsafe trait Atomics {}

// SAFETY: an atomic integer.
unsafe impl Atomics for AtomicU32 {}
// SAFETY: as above.
unsafe impl Atomics for AtomicU64 {}
// SAFETY: elements of a slice are contiguous.
unsafe impl<T: Atomics> Atomics for [T] {}

/// A structure at a mapping's start. Bounds, alignment and access are checked on creation, so that
/// the data path has no checks.
#[derive(Debug)]
pub(crate) struct View<T: Atomics + ?Sized> {
    start: NonNull<T>,
    _mapping: Arc<Mapping>,
}

// SAFETY: a view is a mapping and a shared reference to atomics in it, which `Atomics` ensures.
unsafe impl<T: Atomics + ?Sized> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: Atomics + ?Sized> Sync for View<T> {}

impl<T: Atomics> View<T> {
    /// Creates a view. Fails with `EINVAL` if the mapping is smaller, or does not allow `access`.
    pub(crate) fn new(mapping: Arc<Mapping>, access: Access) -> io::Result<Self> {
        let start = mapping.first_of(1, access)?;
        Ok(Self { start, _mapping: mapping })
    }
}

impl<T: Atomics> View<[T]> {
    /// Creates a view of `count` contiguous structures. Fails with `EINVAL` if the mapping is
    /// smaller, or does not allow `access`.
    pub(crate) fn slice(mapping: Arc<Mapping>, count: usize, access: Access) -> io::Result<Self> {
        let start = mapping.first_of(count, access)?;
        Ok(Self { start: NonNull::slice_from_raw_parts(start, count), _mapping: mapping })
    }
}

impl<T: Atomics + ?Sized> Deref for View<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `Mapping::first_of` has checked the address, which stays mapped for as long as
        // `self` lives. `Atomics` makes any bytes there valid, also if others change them.
        unsafe { self.start.as_ref() }
    }
}

/// Copies single bytes; `Mapping::check` has checked the range.
fn load_bytes(start: *mut u8, to: &mut [u8]) {
    for (index, byte) in to.iter_mut().enumerate() {
        // SAFETY: inside the checked range, and every access to it is atomic.
        *byte = unsafe { AtomicU8::from_ptr(start.wrapping_add(index)) }.load(Ordering::Relaxed);
    }
}

/// Copies single bytes; `Mapping::check` has checked the range.
fn store_bytes(start: *mut u8, from: &[u8]) {
    for (index, byte) in from.iter().enumerate() {
        // SAFETY: inside the checked range, and every access to it is atomic.
        unsafe { AtomicU8::from_ptr(start.wrapping_add(index)) }.store(*byte, Ordering::Relaxed);
    }
}

/// Returns the number of single bytes before the first aligned word at or after `address`, and the
/// number of words after them.
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
    fn store_into_read_only_mapping_panics() {
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
