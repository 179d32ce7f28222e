//! Memory of the application's own, behind a [`Mapping`]'s face for as long as the card may use it.

use std::any::TypeId;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed};

use super::{Access, Mapping};

/// Size of a page, in bytes.
const PAGE: usize = 4096;

/// Who frees a mapping's bytes.
pub(super) enum Keeper {
    /// The kernel, by munmap.
    Kernel,
    /// A value that nobody reaches until it is taken back.
    Lent(Lent),
    /// Somebody who has promised to keep them.
    Promised,
}

/// A value that owns the bytes. It stays in its box, and nobody looks at it while the bytes are
/// lent.
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
        // SAFETY: `owner` came from a box of the type that `drop` was made for, and is given up
        // once.
        unsafe { (self.drop)(self.owner) };
    }
}

/// Drops a value in its box.
///
/// # Safety
/// `owner` came from `Box::<T>::into_raw`, and nobody uses it any more.
unsafe fn drop_box<T>(owner: *mut ()) {
    // SAFETY: what the caller promises.
    drop(unsafe { Box::from_raw(owner.cast::<T>()) });
}

impl Mapping {
    /// The bytes that a value owns, without copying them: a `Vec<u8>`, a `Box<[u8]>`, another
    /// crate's mapping. The value is put away until [`Mapping::take_back`], so that safe code
    /// reaches the bytes through this alone.
    #[must_use]
    pub fn over<T: AsMut<[u8]> + Send + 'static>(owner: T) -> Self {
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: just made, and nobody else has it. The borrow lasts until the value is taken back
        // or dropped: nobody touches the value meanwhile, so whatever it is, the bytes stay where
        // they are and are nobody else's.
        let bytes = unsafe { &mut *owner }.as_mut();
        let (start, length) = (NonNull::from(&mut *bytes).cast(), bytes.len());
        let keeper = Keeper::Lent(Lent { owner: owner.cast(), drop: drop_box::<T>, kind: TypeId::of::<T>() });
        Self { start, length, access: Access::ReadWrite, keeper, shared: false }
    }

    /// Bytes of the caller's, at an address.
    ///
    /// # Safety
    /// They are initialised and stay so, mapped and writable, until this is dropped and everything
    /// that was made of it; while it lives nobody changes them but through it, nor reads those that
    /// are being changed.
    #[must_use]
    pub unsafe fn promised(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length, access: Access::ReadWrite, keeper: Keeper::Promised, shared: false }
    }

    /// Whether it was made of a value of this type.
    #[must_use]
    pub fn is_over<T: 'static>(&self) -> bool {
        matches!(&self.keeper, Keeper::Lent(lent) if lent.kind == TypeId::of::<T>())
    }

    /// Whether the bytes are the application's own.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        !matches!(self.keeper, Keeper::Kernel)
    }

    /// The value that [`Mapping::over`] was given, with what its bytes are now.
    ///
    /// # Errors
    /// The mapping, if it was made of something else.
    pub fn take_back<T: 'static>(mut self) -> Result<T, Self> {
        if !self.is_over::<T>() {
            return Err(self);
        }
        self.end_sharing();
        match std::mem::replace(&mut self.keeper, Keeper::Promised) {
            Keeper::Lent(lent) => {
                let owner = lent.owner.cast::<T>();
                std::mem::forget(lent);
                // SAFETY: of this type, as was asked, and out of the keeper, so that nobody else
                // gives it up.
                Ok(*unsafe { Box::from_raw(owner) })
            }
            _ => Err(self),
        }
    }

    /// Has the same bytes at the same addresses, but in a file's pages: what another process that
    /// maps the file writes is here too. When this goes, the bytes as they are then are in private
    /// memory again.
    ///
    /// Only for whole pages of the application's own private memory ([`Mapping::is_lent`]).
    ///
    /// # Errors
    /// `EINVAL` for others; those of `mmap(2)` and `mremap(2)`: then nothing has changed.
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

    /// Undoes [`Mapping::share`]. If memory cannot be had for that, the file's pages stay, which
    /// nobody else writes to any more.
    fn end_sharing(&mut self) {
        if std::mem::take(&mut self.shared) {
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
            let private = unsafe { mmap_anonymous(std::ptr::null_mut(), self.length, access, flags) };
            let _ = private.map(|private| self.move_here(private.cast()));
        }
    }

    /// Copies the bytes into a new mapping of the same length, and puts it where they are.
    fn move_here(&mut self, from: *mut u8) -> io::Result<()> {
        let new = Self::new(from, self.length, Access::ReadWrite)?;
        let mut bytes = vec![0; self.length.min(1 << 20)];
        for offset in (0..self.length).step_by(bytes.len()) {
            let part = bytes.len().min(self.length - offset);
            self.read(offset, &mut bytes[..part]);
            new.write(offset, &bytes[..part]);
        }
        let to = self.start.as_ptr();
        // SAFETY: whole pages of the application's, which nobody but this mapping touches (`over`,
        // `promised`), are replaced by others that hold the same bytes.
        unsafe { mremap_fixed(from.cast(), self.length, self.length, MremapFlags::MAYMOVE, to.cast())? };
        // There is nothing left at the address that it was made at.
        std::mem::forget(new);
        Ok(())
    }

    /// Ends what the keeper has lent; called once, when the mapping goes.
    pub(super) fn give_up(&mut self) {
        self.end_sharing();
        if let Keeper::Kernel = self.keeper {
            // SAFETY: `start` and `length` are what mmap gave; no reference into the mapping
            // outlives it.
            let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that begin at a page, somewhere inside of a vector.
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
    fn a_value_lends_its_bytes_and_has_them_back_changed() {
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
    fn bytes_inside_of_the_value_itself_stay_where_they_are() {
        let mapping = Mapping::over([1_u8, 2, 3]);
        mapping.write(1, &[9]);
        assert_eq!(mapping.take_back::<[u8; 3]>().unwrap(), [1, 9, 3]);
        drop(Mapping::over(vec![0_u8; 5]));
    }

    #[test]
    fn shared_pages_are_the_files_until_they_are_taken_back() {
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
    fn only_whole_pages_of_ones_own_are_shared() {
        let file = file(PAGE);
        assert!(Mapping::over(vec![0_u8; 100]).share(&file).is_err());
        assert!(Mapping::anonymous(PAGE).unwrap().share(&file).is_err());
    }
}
