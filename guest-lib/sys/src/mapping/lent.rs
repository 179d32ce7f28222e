//! Application memory, wrapped in a [`Mapping`] for as long as the card may use it.

use std::any::TypeId;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed};

use super::{Access, Mapping};

/// Size of a page, in bytes.
const PAGE: usize = 4096;

/// Owner that frees a mapping's bytes.
pub(super) enum Keeper {
    /// The kernel, by munmap.
    Kernel,
    /// A value that is inaccessible until it is taken back.
    Lent(Lent),
    /// A caller that has promised to keep them.
    Promised,
}

/// A value that owns the bytes. It stays in its box, and is not accessed while the bytes are lent.
pub(super) struct Lent {
    owner: *mut (),
    drop: unsafe fn(*mut ()),
    kind: TypeId,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keeper::Kernel => "Kernel",
            Keeper::Lent(_) => "Lent",
            Keeper::Promised => "Promised",
        })
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: `owner` came from a box of the type that `drop` was made for, and is released
        // once.
        unsafe { (self.drop)(self.owner) };
    }
}

/// Drops a value in its box.
///
/// # Safety
/// `owner` came from `Box::<T>::into_raw`, and is not used after this call.
unsafe fn drop_box<T>(owner: *mut ()) {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(owner.cast::<T>()) });
}

impl Mapping {
    /// Wraps the bytes that a value owns, without a copy: a `Vec<u8>`, a `Box<[u8]>`, another
    /// crate's mapping. The value is inaccessible until [`Mapping::take_back`], so that safe code
    /// can access the bytes only through this mapping.
    #[must_use]
    pub fn over<T: AsMut<[u8]> + Send + 'static>(owner: T) -> Self {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: just created, with no other owner. The borrow lasts until the value is taken back
        // or dropped. The value is not accessed meanwhile, so whatever its type, the bytes do not
        // move and have no other user.
        let bytes = unsafe { &mut *owner }.as_mut();
        let (start, length) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        let keeper = Keeper::Lent(Lent { owner: owner.cast(), drop: drop_box::<T>, kind: TypeId::of::<T>() });
        Self { start, length, access: Access::ReadWrite, keeper, shared: false }
    }

    /// Wraps the caller's bytes at an address.
    ///
    /// # Safety
    /// The bytes must be initialised, mapped and writable until this mapping and everything made of
    /// it are dropped. Until then all changes must go through this mapping, and bytes that are
    /// being changed must not be read otherwise.
    #[must_use]
    pub unsafe fn promised(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length, access: Access::ReadWrite, keeper: Keeper::Promised, shared: false }
    }

    /// Returns whether the mapping was made of a value of this type.
    #[must_use]
    pub fn is_over<T: 'static>(&self) -> bool {
        matches!(&self.keeper, Keeper::Lent(lent) if lent.kind == TypeId::of::<T>())
    }

    /// Returns whether the bytes belong to the application.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        !matches!(self.keeper, Keeper::Kernel)
    }

    /// Returns the value that was passed to [`Mapping::over`], with its current bytes.
    ///
    /// # Errors
    /// The mapping, if it was not made of a value of this type.
    pub fn take_back<T: 'static>(mut self) -> Result<T, Self> {
        if !self.is_over::<T>() {
            return Err(self);
        }
        self.end_sharing();
        match std::mem::replace(&mut self.keeper, Keeper::Promised) {
            Keeper::Lent(lent) => {
                let owner = lent.owner.cast::<T>();
                std::mem::forget(lent);
                // SAFETY: of this type, as checked, and removed from the keeper, so that it is
                // released only here.
                Ok(*unsafe { Box::from_raw(owner) })
            }
            _ => Err(self),
        }
    }

    /// Replaces the pages by those of a file, with the same bytes at the same addresses. What
    /// another process stores to the file's mapping is then visible here. When this mapping is
    /// dropped, the bytes of that time are in private memory again.
    ///
    /// Only for whole pages of private application memory ([`Mapping::is_lent`]).
    ///
    /// # Errors
    /// `EINVAL` for other memory; those of `mmap(2)` and `mremap(2)`. Nothing has changed in these
    /// cases.
    pub fn share(&mut self, file: impl AsFd) -> io::Result<()> {
        let whole = self.start.as_ptr() as usize % PAGE == 0 && self.length % PAGE == 0;
        if !self.is_lent() || !whole || self.shared || self.length == 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let file = unsafe { mmap(std::ptr::null_mut(), self.length, access, flags, file.as_fd(), 0)? };
        self.move_here(file.cast())?;
        self.shared = true;
        Ok(())
    }

    /// Undoes [`Mapping::share`]. If there is no memory for that, the file's pages stay; nothing
    /// else writes to them then.
    fn end_sharing(&mut self) {
        if std::mem::take(&mut self.shared) {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
            let private = unsafe { mmap_anonymous(std::ptr::null_mut(), self.length, access, flags) };
            let _ = private.map(|private| self.move_here(private.cast()));
        }
    }

    /// Copies the bytes into a new mapping of the same length, and moves that to their address.
    fn move_here(&mut self, from: *mut u8) -> io::Result<()> {
        let new = Self::new(from, self.length, Access::ReadWrite)?;
        let mut bytes = vec![0; self.length.min(1 << 20)];
        for offset in (0..self.length).step_by(bytes.len()) {
            let part = bytes.len().min(self.length - offset);
            self.read(offset, &mut bytes[..part]);
            new.write(offset, &bytes[..part]);
        }
        let to = self.start.as_ptr();
        // SAFETY: whole pages of the application, which only this mapping accesses (`over`,
        // `promised`), are replaced by pages with the same bytes.
        unsafe { mremap_fixed(from.cast(), self.length, self.length, MremapFlags::MAYMOVE, to.cast())? };
        // The mapping was moved away from its original address.
        std::mem::forget(new);
        Ok(())
    }

    /// Ends the loan or unmaps the memory; called once, when the mapping is dropped.
    pub(super) fn give_up(&mut self) {
        self.end_sharing();
        if let Keeper::Kernel = self.keeper {
            // SAFETY: `start` and `length` are from mmap; no reference into the mapping outlives
            // it.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page-aligned bytes inside a vector.
    struct Aligned(Vec<u8>);

    impl AsMut<[u8]> for Aligned {
        fn as_mut(&mut self) -> &mut [u8] {
            let start = self.0.as_ptr().align_offset(PAGE);
            &mut self.0[start..start + 2 * PAGE]
        }
    }

    fn file(length: usize) -> rustix::fd::OwnedFd {
        let file = rustix::fs::memfd_create("lent-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, length as u64).unwrap();
        file
    }

    #[test]
    fn lent_value_returns_with_changed_bytes() {
        let mine = vec![7_u8; 1000];
        let address = mine.as_ptr() as u64;
        let mapping = Mapping::over(mine);
        assert_eq!((mapping.address(), mapping.length()), (address, 1000), "nothing was copied");
        mapping.write(10, b"changed");
        let mapping = mapping.take_back::<Box<[u8]>>().unwrap_err();
        let mine: Vec<u8> = mapping.take_back().unwrap();
        assert_eq!((mine.as_ptr() as u64, &mine[9..18]), (address, &b"\x07changed\x07"[..]));
    }

    #[test]
    fn bytes_inside_the_value_do_not_move() {
        let mapping = Mapping::over([1_u8, 2, 3]);
        mapping.write(1, &[9]);
        assert_eq!(mapping.take_back::<[u8; 3]>().unwrap(), [1, 9, 3]);
        drop(Mapping::over(vec![0_u8; 5]));
    }

    #[test]
    fn shared_pages_belong_to_file_until_taken_back() {
        let mut mine = Aligned(vec![3; 4 * PAGE]);
        mine.as_mut()[5] = 50;
        let mut mapping = Mapping::over(mine);
        let file = file(2 * PAGE);
        mapping.share(&file).unwrap();
        let other = Mapping::of_file(&file, 0, 2 * PAGE, Access::ReadWrite).unwrap();
        let mut there = [0; 3];
        other.read(4, &mut there);
        assert_eq!(there, [3, 50, 3], "what was there is in the file");
        other.write(2 * PAGE - 1, &[8]);
        let mut mine: Aligned = mapping.take_back().unwrap();
        assert_eq!((mine.as_mut()[5], mine.as_mut()[2 * PAGE - 1]), (50, 8));
        other.write(5, &[0]);
        assert_eq!(mine.as_mut()[5], 50, "private again");
    }

    #[test]
    fn only_whole_application_pages_are_shared() {
        let file = file(PAGE);
        assert!(Mapping::over(vec![0_u8; 100]).share(&file).is_err());
        assert!(Mapping::anonymous(PAGE).unwrap().share(&file).is_err());
    }
}
