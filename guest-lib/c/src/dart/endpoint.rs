//! Endpoints.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

use hamlyn::dart::Endpoint;

use super::card::dart_card;
use crate::call::{call, free, given, store};
use crate::memory::lent;

/// A region of this process' memory, which messages of the connections that name it write to and
/// read, and what is sent comes from (section 3). Nothing of it is pinned: a page that was never
/// touched, or that is swapped out, is brought in when a message needs it. Any number of threads
/// may use it at once.
pub struct dart_endpoint(pub(crate) Arc<Endpoint>);

/// Opens an endpoint over `length` bytes of the program's own memory, at least one, which begins at
/// a multiple of 4, or with NULL over new memory, zeroed, none of which is there before it is
/// touched. The program's own memory has to stay until the endpoint is destroyed, and all that was
/// made with it: connections, and what was made with these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_create(
    card: Option<&dart_card>,
    memory: *mut c_void,
    length: usize,
    endpoint: Option<&mut MaybeUninit<Box<dart_endpoint>>>,
) -> c_int {
    call(|| {
        let to = given(endpoint, "endpoint")?;
        let card = &given(card, "card")?.0;
        let endpoint = match lent(memory, length)? {
            Some(mapping) => card.endpoint_over_mapping(mapping)?,
            None => card.endpoint(length)?,
        };
        store(to, Box::new(dart_endpoint(Arc::new(endpoint))))
    })
}

/// Lets an endpoint go; it is closed when the connections that name it are destroyed, too. NULL is
/// nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_destroy(endpoint: Option<Box<dart_endpoint>>) {
    free(endpoint);
}

/// Where its bytes are; NULL for NULL. What arrives changes them at any time, so load a flag by
/// __atomic_load_n(..., __ATOMIC_ACQUIRE) or the like: what its writer had written before it is
/// there then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_data(endpoint: Option<&dart_endpoint>) -> *mut c_void {
    endpoint.map_or(std::ptr::null_mut(), |endpoint| endpoint.0.address() as *mut c_void)
}

/// Tells the kernel that an endpoint's memory is not needed soon: its pages may go to swap space.
/// -EINVAL if the memory is the program's own and does not begin with a page.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_page_out(endpoint: Option<&dart_endpoint>) -> c_int {
    call(|| Ok(given(endpoint, "endpoint")?.0.page_out().map(|()| 0)?))
}

/// Gives the pages of an endpoint's memory back: those that are touched again, by whomever, are
/// zero. -EINVAL if the memory is the program's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_discard(endpoint: Option<&dart_endpoint>) -> c_int {
    call(|| Ok(given(endpoint, "endpoint")?.0.discard().map(|()| 0)?))
}
