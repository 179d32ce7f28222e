//! A libfabric provider over channels, so that MPI and other programs of libfabric run over every
//! card, and over express memory. `docs/mpi.md` shows how.
//!
//! libfabric loads this library from a folder in `FI_PROVIDER_PATH` and calls [`fi_prov_ini`]. It
//! offers reliable datagram endpoints (`FI_EP_RDM`) with messages, tagged messages, remote memory
//! access and atomic operations. Between two endpoints there is one channel, or two if both ends
//! opened one at the same time; each end sends on one of them, so messages keep their order.
//!
//! Layers, each of which knows only those before it: `memory` and `address`; `abi`, libfabric's
//! numbers and structures; `engine`, which does all that is not libfabric's interface; `link`, a
//! channel as the engine's link; and the interface's objects, which `fabric` opens.

// Functions that libfabric calls: fi_endpoint(3) and the like say what they require.
#![allow(clippy::missing_safety_doc)]

mod abi;
mod address;
mod atomic;
mod av;
mod cntr;
mod cq;
mod domain;
mod endpoint;
mod engine;
mod ep;
mod epobject;
mod fabric;
mod info;
mod link;
mod memory;
mod node;
mod object;
mod region;
#[cfg(test)]
mod tests;
mod watched;

use std::ptr;

/// The provider's description.
static PROVIDER: Shared<abi::Provider> = Shared(std::cell::UnsafeCell::new(abi::Provider {
    // 0.1
    version: 1,
    fi_version: info::API,
    context: [ptr::null_mut(); 4],
    name: c"hamlyn".as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::fabric,
    cleanup: None,
}));

/// What libfabric may write to: it keeps its own state in `context`.
struct Shared<T>(std::cell::UnsafeCell<T>);

// SAFETY: this crate only passes its address on, and libfabric has locks of its own.
unsafe impl<T> Sync for Shared<T> {}

/// Returns the provider's description. libfabric calls this once.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut std::ffi::c_void {
    PROVIDER.0.get().cast()
}
