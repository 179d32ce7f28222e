//! Apertures.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use hamlyn::clan::{Aperture, Rights};

use super::card::clan_card;
use super::descriptor::clan_descriptor;
use crate::call::{Failure, call, free, given, store};
use crate::memory::lent;

/// Others may read an aperture.
pub const CLAN_RIGHT_READ: u32 = 1;
/// Others may write to it.
pub const CLAN_RIGHT_WRITE: u32 = 2;

/// Memory of this process that others reach who have its descriptor, by windows and by DMA (section
/// 3.2). What they write is simply there. What one host has written arrives in the order in which
/// it was written. Any number of threads may use it at once.
pub struct clan_aperture(pub(crate) Aperture);

/// Opens an aperture over `length` bytes of the program's own memory, which begins at a multiple of
/// 8, or with NULL over new memory, zeroed: 1 byte to 1 GiB. `rights` is what others may do:
/// CLAN_RIGHT_READ, CLAN_RIGHT_WRITE, both, or 0 if it is for DMA requests of this process alone,
/// which may use it whatever it is. The program's own memory has to stay until the aperture is
/// destroyed, and all DMA requests that use it are done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_create(
    card: Option<&clan_card>,
    memory: *mut c_void,
    length: usize,
    rights: u32,
    aperture: Option<&mut MaybeUninit<Box<clan_aperture>>>,
) -> c_int {
    call(|| {
        let to = given(aperture, "aperture")?;
        let (card, rights) = (&given(card, "card")?.0, rights_of(rights)?);
        let aperture = match lent(memory, length)? {
            Some(mapping) => card.aperture_over_mapping(mapping, rights)?,
            None => card.aperture(length, rights)?,
        };
        store(to, Box::new(clan_aperture(aperture)))
    })
}

/// Opens an aperture over new memory that is a member of a group (multicast, section 2.5), 0 to 63:
/// what anybody writes to the group under this key is written to each host's member.
/// clan_descriptor_of_group names the group. -EADDRINUSE if it has a member at this host.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_join(
    card: Option<&clan_card>,
    group: u32,
    key: u64,
    length: usize,
    aperture: Option<&mut MaybeUninit<Box<clan_aperture>>>,
) -> c_int {
    call(|| {
        let to = given(aperture, "aperture")?;
        store(to, Box::new(clan_aperture(given(card, "card")?.0.join_group(group, key, length)?)))
    })
}

/// Closes an aperture: nobody reaches the memory any more, and its descriptors lead nowhere. NULL
/// is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_destroy(aperture: Option<Box<clan_aperture>>) {
    free(aperture);
}

/// What others name it by. That of a member of a group is the group's. -ENETDOWN while the card's
/// link is down.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_descriptor(
    aperture: Option<&clan_aperture>,
    descriptor: Option<&mut MaybeUninit<clan_descriptor>>,
) -> c_int {
    call(|| {
        let to = given(descriptor, "descriptor")?;
        store(to, clan_descriptor::new(&given(aperture, "aperture")?.0.descriptor()?))
    })
}

/// Where its bytes are; NULL for NULL. What arrives changes them at any time, so load a flag by
/// __atomic_load_n(..., __ATOMIC_ACQUIRE) or the like: what its writer had written before it is
/// there then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_data(aperture: Option<&clan_aperture>) -> *mut c_void {
    aperture.map_or(std::ptr::null_mut(), |aperture| aperture.0.as_ptr().cast_mut().cast())
}

pub(crate) fn rights_of(number: u32) -> Result<Rights, Failure> {
    let all = [Rights::None, Rights::Read, Rights::Write, Rights::ReadWrite];
    let found = all.into_iter().find(|rights| rights_number(*rights) == number);
    let limit = CLAN_RIGHT_READ | CLAN_RIGHT_WRITE;
    found.ok_or_else(|| Failure::argument(format!("rights {number:#x} are unknown (limit {limit:#x})")))
}

pub(crate) fn rights_number(rights: Rights) -> u32 {
    match rights {
        Rights::None => 0,
        Rights::Read => CLAN_RIGHT_READ,
        Rights::Write => CLAN_RIGHT_WRITE,
        Rights::ReadWrite => CLAN_RIGHT_READ | CLAN_RIGHT_WRITE,
    }
}
