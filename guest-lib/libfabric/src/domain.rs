//! Domains (fi_domain(3)): an open card, and the memory that peers may use.

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use hamlyn::channel::Card;

use crate::abi::FidDomain;
use crate::engine::regions::Regions;

/// A domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) card: Card,
    pub(crate) host: u32,
    pub(crate) mr_mode: c_int,
    pub(crate) regions: Arc<Mutex<Regions>>,
}

#[repr(C)]
pub(crate) struct DomainObject {
    pub(crate) fid: FidDomain,
    pub(crate) domain: Arc<Domain>,
}
