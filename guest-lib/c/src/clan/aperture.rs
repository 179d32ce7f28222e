//! Apertures.

use std::ffi::c_void;

use hamlyn::clan::Aperture;

use super::card::clan_card;
use super::descriptor::clan_descriptor;
use super::rights::rights_of;
use crate::exported::{Out, exported};
use crate::memory::lent;

/// Memory of this process that any process with its descriptor can access, through windows and DMA
/// (section 3.2). Remote writes appear in it without any call on this side. Writes of one host
/// arrive in the order in which they were written. Any number of threads may use it at once.
pub struct clan_aperture(pub(crate) Aperture);

exported! {
/// Opens an aperture of 1 byte to 1 GiB over `length` bytes of the program's own memory, which must
/// begin at a multiple of 8. If `memory` is NULL, the library allocates zeroed memory. `rights` is
/// what other processes may do: CLAN_RIGHT_READ, CLAN_RIGHT_WRITE or both. 0 is for DMA requests of
/// this process only; these may use the aperture regardless of its rights. The program's own memory
/// must stay mapped until the aperture is destroyed and all DMA requests that use it are complete.
fn clan_aperture_create(
    card: &clan_card,
    memory: *mut c_void,
    length: usize,
    rights: u32,
    aperture: Out<Box<clan_aperture>>,
) {
    let rights = rights_of(rights)?;
    aperture.store(clan_aperture(match lent(memory, length)? {
        Some(mapping) => card.0.aperture_over_mapping(mapping, rights)?,
        None => card.0.aperture(length, rights)?,
    }))
}

/// Opens an aperture over new memory that is a member of a group, 0 to 63 (multicast, section 2.5).
/// A write to the group with this key goes to each host's member. clan_descriptor_of_group names
/// the group. Fails with -EADDRINUSE if the group already has a member at this host.
fn clan_aperture_join(
    card: &clan_card,
    group: u32,
    key: u64,
    length: usize,
    aperture: Out<Box<clan_aperture>>,
) {
    aperture.store(clan_aperture(card.0.join_group(group, key, length)?))
}

/// Closes an aperture: other processes lose access to the memory, and its descriptors become
/// invalid. NULL is a no-op.
fn clan_aperture_destroy(aperture: Box<clan_aperture>);

/// Stores the descriptor that names the aperture to other processes. For a member of a group it is
/// the group's descriptor. Fails with -ENETDOWN while the card's link is down.
fn clan_aperture_descriptor(aperture: &clan_aperture, descriptor: Out<clan_descriptor>) {
    descriptor.store(clan_descriptor::new(&aperture.0.descriptor()?))
}
}

/// Returns the address of the aperture's first byte; NULL for NULL. Remote writes change the bytes
/// at any time. So load a flag with __atomic_load_n(..., __ATOMIC_ACQUIRE) or similar: everything
/// that its writer had written before it is then visible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clan_aperture_data(aperture: Option<&clan_aperture>) -> *mut c_void {
    aperture.map_or(std::ptr::null_mut(), |aperture| aperture.0.as_ptr().cast_mut().cast())
}
