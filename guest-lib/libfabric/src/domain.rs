//! Domains (fi_domain(3)): an open card, and the memory that peers may use.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use hamlyn::channel::Card;

use crate::abi::*;
use crate::engine::regions::Regions;
use crate::fabric::{close, give};
use crate::{av, cntr, cq, ep, region};

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
    fid: FidDomain,
    pub(crate) domain: Arc<Domain>,
}

static FID: Ops = ops(close::<DomainObject>, no_bind, no_control);
static OPS: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: ep::open,
    scalable_ep: missing,
    cntr_open: cntr::open,
    poll_open: missing,
    stx_ctx: missing,
    srx_ctx: missing,
    query_atomic: missing,
    query_collective: missing,
    endpoint2: missing,
};

pub(crate) unsafe extern "C" fn open(
    _: *mut FidFabric,
    info: *mut Info,
    to: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    let Ok(card) = Card::open_any() else { return -libc::ENODEV };
    let Ok(Some(host)) = card.host() else { return -libc::ENETDOWN };
    // SAFETY: the program passes what fi_getinfo has returned.
    let mr_mode = unsafe { (*info).domain_attr.as_ref().map_or(0, |domain| domain.mr_mode) };
    let fid = Fid { fclass: FI_CLASS_DOMAIN, context, ops: &FID };
    let domain = Arc::new(Domain { card, host, mr_mode, regions: Arc::default() });
    give(DomainObject { fid: FidDomain { fid, ops: &OPS, mr: &region::OPS }, domain }, to)
}
