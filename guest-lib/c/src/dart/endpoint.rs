//! Endpoints.

use std::ffi::c_void;
use std::sync::Arc;

use hamlyn::dart::Endpoint;

use super::card::dart_card;
use crate::exported::{Out, exported};
use crate::memory::lent;

/// A region of this process' memory. Messages of the connections that use it read and write it, and
/// sent data comes from it (section 3). None of it is pinned: a page that was never touched or is
/// swapped out is brought in when a message needs it. Any number of threads may use it at once.
pub struct dart_endpoint(pub(crate) Arc<Endpoint>);

exported! {
/// Opens an endpoint over `length` bytes of the program's own memory, at least one, which must
/// begin at a multiple of 4. If `memory` is NULL, the library allocates zeroed memory, whose pages
/// do not exist before they are touched. The program's own memory must stay mapped until the
/// endpoint is destroyed, and everything created with it: its connections, and everything created
/// with those.
fn dart_endpoint_create(
    card: &dart_card,
    memory: *mut c_void,
    length: usize,
    endpoint: Out<Box<dart_endpoint>>,
) {
    endpoint.store(dart_endpoint(Arc::new(match lent(memory, length)? {
        Some(mapping) => card.0.endpoint_over_mapping(mapping)?,
        None => card.0.endpoint(length)?,
    })))
}

/// Releases an endpoint. It is closed once the connections that use it are destroyed too. NULL is a
/// no-op.
fn dart_endpoint_destroy(endpoint: Box<dart_endpoint>);
}

/// Returns the address of the endpoint's first byte; NULL for NULL. Arriving messages change the
/// bytes at any time. So load a flag with __atomic_load_n(..., __ATOMIC_ACQUIRE) or similar:
/// everything that its writer had written before it is then visible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dart_endpoint_data(endpoint: Option<&dart_endpoint>) -> *mut c_void {
    endpoint.map_or(std::ptr::null_mut(), |endpoint| endpoint.0.address() as *mut c_void)
}

exported! {
/// Tells the kernel that an endpoint's memory is not needed soon: its pages may be swapped out.
/// Fails with -EINVAL if the memory is the program's own and does not begin at a page boundary.
fn dart_endpoint_page_out(endpoint: &dart_endpoint) {
    endpoint.0.page_out()?
}

/// Discards the pages of an endpoint's memory. A page reads as zeros when it is next accessed, by
/// the process or by a message. Fails with -EINVAL if the memory is the program's own.
fn dart_endpoint_discard(endpoint: &dart_endpoint) {
    endpoint.0.discard()?
}
}
