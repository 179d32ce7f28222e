//! Memory that other hosts can access.

use std::sync::Arc;

use hamlyn_abi::clan::aperture::{CLAN_APERTURE_GROUP, CLAN_APERTURE_WRITE};
use hamlyn_abi::clan::uapi::{CLAN_MAX_APERTURE, ClanAperture};
use hamlyn_abi::family::link::ULN_NO_HOST;
use hamlyn_sys::{Mapping, Word};

use super::attachment::{Attachment, Object};
use super::descriptor::Descriptor;
use super::rights::Rights;
use crate::core::lend::{self, Lendable};
use crate::core::memory::Memory;
use crate::core::place::{aligned, multiple};
use crate::error::{Error, GivenBack, Result, at_most, inside};

/// An aperture (section 3.2): memory of this process that every holder of its [`Descriptor`] can
/// access by windows and by DMA. Remote writes appear in the memory without any call.
///
/// Writes from one host arrive in order. A load of a word also sees everything that its writer
/// wrote before that word. Dropping the aperture revokes all access: its descriptors become stale.
#[derive(Debug)]
pub struct Aperture {
    parts: Arc<Parts>,
}

/// The part of an aperture that DMA requests in flight keep alive.
#[derive(Debug)]
pub(super) struct Parts {
    // Dropped before `memory`: the card closes the aperture first.
    open: Open,
    memory: Memory,
}

#[derive(Debug)]
struct Open {
    card: Arc<dyn Attachment>,
    number: u32,
    key: u64,
    rights: Rights,
    /// The group, encoded like a descriptor's host.
    group: Option<u32>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.card.close(Object::Aperture, self.number);
    }
}

impl Aperture {
    pub(super) fn open(card: &Arc<dyn Attachment>, length: usize, rights: Rights) -> Result<Self> {
        check(length)?;
        let memory = card.allocate_aperture(length)?;
        let argument = ClanAperture { flags: rights.flags(), ..ClanAperture::default() };
        Self::make(card, memory, argument, rights).map_err(Into::into)
    }

    pub(super) fn join(card: &Arc<dyn Attachment>, group: u32, key: u64, length: usize) -> Result<Self> {
        check(length)?;
        let memory = card.allocate_aperture(length)?;
        let flags = CLAN_APERTURE_WRITE | CLAN_APERTURE_GROUP;
        let argument = ClanAperture { flags, group, key, ..ClanAperture::default() };
        Self::make(card, memory, argument, Rights::Write).map_err(Into::into)
    }

    pub(super) fn over<T: Lendable>(
        card: &Arc<dyn Attachment>,
        mut memory: T,
        rights: Rights,
    ) -> Result<Self, GivenBack<T>> {
        let bytes = memory.as_mut();
        let (at, length) = (bytes.as_ptr() as usize, bytes.len());
        if let Err(error) = check(length).and_then(|()| multiple("address of the memory", at, 8)) {
            return Err(GivenBack::new(error, memory));
        }
        let memory = lend::lend(&**card, memory)?;
        let argument = ClanAperture { flags: rights.flags(), ..ClanAperture::default() };
        Self::make(card, memory, argument, rights)
            .map_err(|failed| GivenBack::new(failed.error, lend::returned(failed.back)))
    }

    /// Opens an aperture over memory that is lent as a mapping, not by value.
    pub(super) fn over_mapping(card: &Arc<dyn Attachment>, mapping: Mapping, rights: Rights) -> Result<Self> {
        check(mapping.length())?;
        multiple("address of the memory", mapping.address() as usize, 8)?;
        let memory = card.lend(mapping)?;
        let argument = ClanAperture { flags: rights.flags(), ..ClanAperture::default() };
        Self::make(card, memory, argument, rights).map_err(Into::into)
    }

    fn make(
        card: &Arc<dyn Attachment>,
        memory: Memory,
        argument: ClanAperture,
        rights: Rights,
    ) -> Result<Self, GivenBack<Memory>> {
        let (address, length) = (memory.card_address(), memory.len() as u64);
        let mut argument = ClanAperture { address, length, ..argument };
        if let Err(error) = card.open_aperture(&mut argument, &memory) {
            return Err(GivenBack::new(error, memory));
        }
        let group = (argument.flags & CLAN_APERTURE_GROUP != 0).then_some(argument.group);
        let open = Open { card: card.clone(), number: argument.aperture, key: argument.key, rights, group };
        Ok(Self { parts: Arc::new(Parts { open, memory }) })
    }

    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.memory.len()
    }

    /// Returns whether the length is zero, which it never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.memory.is_empty()
    }

    /// Returns the address in this process. Only for languages that cannot use the other methods.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.parts.memory.mapping().address() as usize as *const u8
    }

    /// Returns the aperture's number at this host.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.parts.open.number
    }

    /// Returns the access rights of other hosts.
    #[must_use]
    pub fn rights(&self) -> Rights {
        self.parts.open.rights
    }

    /// Returns the descriptor by which other hosts access the aperture. For a member of a group it
    /// is the group's descriptor.
    ///
    /// # Errors
    /// [`Error::LinkDown`], [`Error::System`].
    pub fn descriptor(&self) -> Result<Descriptor> {
        let Open { card, number, key, rights, group } = &self.parts.open;
        let length = self.len() as u64;
        if let Some(group) = group {
            return Descriptor::of_group(*group, *key, length);
        }
        match card.query()?.host {
            ULN_NO_HOST => Err(Error::LinkDown),
            host => Ok(Descriptor::new(host, *number, *key, length, *rights)),
        }
    }

    /// Copies bytes out of the aperture. The copy may contain a part of a concurrent write.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.parts.memory.read(offset, to)
    }

    /// Copies bytes into the aperture, where this process and remote readers see them.
    ///
    /// # Errors
    /// [`Error::PastEnd`].
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.parts.memory.write(offset, from)
    }

    /// Closes the aperture and returns the memory that was lent.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the memory was not lent as a value of this type, or DMA requests may
    /// still use it. The error returns the aperture unchanged.
    pub fn take_back<T: 'static>(self) -> Result<T, GivenBack<Self>> {
        if let Err(error) = self.parts.memory.may_take_back::<T>() {
            return Err(GivenBack::new(error, self));
        }
        match Arc::try_unwrap(self.parts) {
            Ok(Parts { open, memory }) => {
                drop(open);
                Ok(lend::returned(memory))
            }
            Err(parts) => {
                let error = Error::Invalid("a DMA request may still use the aperture");
                Err(GivenBack::new(error, Self { parts }))
            }
        }
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    pub(super) fn memory(&self) -> &Memory {
        &self.parts.memory
    }

    /// Loads one word atomically. Later loads see everything that its writer wrote before the word.
    pub(super) fn load<W: Word>(&self, offset: usize) -> Result<W> {
        self.check::<W>(offset)?;
        Ok(self.parts.memory.mapping().load_word(offset))
    }

    pub(super) fn store<W: Word>(&self, offset: usize, value: W) -> Result<()> {
        self.check::<W>(offset)?;
        self.parts.memory.mapping().store_word(offset, value);
        Ok(())
    }

    fn check<W: Word>(&self, offset: usize) -> Result<()> {
        inside("aperture", offset as u64, size_of::<W>() as u64, self.len() as u64)?;
        aligned::<W>("offset", offset)
    }
}

fn check(length: usize) -> Result<()> {
    if length == 0 {
        return Err(Error::Invalid("an aperture has at least one byte"));
    }
    at_most("aperture length", length as u64, CLAN_MAX_APERTURE)
}

macro_rules! words {
    ($($load:ident, $store:ident, $word:ty, $bytes:literal;)*) => {
        impl Aperture {
            $(
                #[doc = concat!("The ", $bytes, " at `offset`, a multiple of as many, in one piece.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $load(&self, offset: usize) -> Result<$word> {
                    self.load(offset)
                }

                #[doc = concat!("Stores ", $bytes, " at `offset`, a multiple of as many, in one piece, in this process' memory.")]
                ///
                /// # Errors
                /// [`Error::PastEnd`], [`Error::Misaligned`].
                #[inline]
                pub fn $store(&self, offset: usize, value: $word) -> Result<()> {
                    self.store(offset, value)
                }
            )*
        }
    };
}

words! {
    load_u8, store_u8, u8, "byte";
    load_u16, store_u16, u16, "2 bytes";
    load_u32, store_u32, u32, "4 bytes";
    load_u64, store_u64, u64, "8 bytes";
}
