//! Fabrics, domains, and event queues, which stay empty: nothing here happens asynchronously
//! (fi_fabric(3), fi_domain(3), fi_eq(3)).

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use hamlyn::channel::Card;

use crate::abi::*;
use crate::cntr::{self, CntrObject};
use crate::cq::{self, CqObject};
use crate::domain::{Domain, DomainObject};
use crate::object::{close, give};
use crate::{atomic, av, ep, region};

static FABRIC: Ops = ops(close::<FidFabric>, no_bind, no_control);
static FABRIC_OPS: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: open_domain,
    passive_ep: missing,
    eq_open,
    wait_open: missing,
    trywait,
    domain2: missing,
};
static EQ: Ops = ops(close::<FidEq>, no_bind, no_control);
static EQ_OPS: OpsEq = OpsEq {
    size: size_of::<OpsEq>(),
    read: eq_read,
    readerr: eq_readerr,
    write: missing,
    sread: eq_sread,
    strerror,
};

pub(crate) unsafe extern "C" fn fabric(
    _: *mut FabricAttr,
    to: *mut *mut FidFabric,
    context: *mut c_void,
) -> c_int {
    let fid = Fid { fclass: FI_CLASS_FABRIC, context, ops: &FABRIC };
    give(FidFabric { fid, ops: &FABRIC_OPS, api_version: crate::info::API }, to)
}

unsafe extern "C" fn eq_open(
    _: *mut FidFabric,
    _: *mut c_void,
    to: *mut *mut FidEq,
    context: *mut c_void,
) -> c_int {
    let fid = Fid { fclass: FI_CLASS_EQ, context, ops: &EQ };
    give(FidEq { fid, ops: &EQ_OPS }, to)
}

/// Prepares for a wait on the files of these objects. `EAGAIN`: do not wait.
unsafe extern "C" fn trywait(_: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the program passes `count` objects of this provider.
        let ready = unsafe {
            let fid = *fids.add(at);
            match (*fid).fclass {
                FI_CLASS_CQ => (*fid.cast::<CqObject>()).queue.arm(),
                FI_CLASS_CNTR => (*fid.cast::<CntrObject>()).counter.arm(),
                _ => Ok(false),
            }
        };
        match ready {
            Ok(false) => {}
            Ok(true) => return -libc::EAGAIN,
            Err(error) => return -error,
        }
    }
    0
}

unsafe extern "C" fn eq_read(_: *mut FidEq, _: *mut u32, _: *mut c_void, _: usize, _: u64) -> isize {
    -(libc::EAGAIN as isize)
}

unsafe extern "C" fn eq_readerr(_: *mut FidEq, _: *mut c_void, _: u64) -> isize {
    -(libc::EAGAIN as isize)
}

unsafe extern "C" fn eq_sread(
    _: *mut FidEq,
    _: *mut u32,
    _: *mut c_void,
    _: usize,
    timeout: c_int,
    _: u64,
) -> isize {
    // SAFETY: no descriptor is passed.
    unsafe { libc::poll(ptr::null_mut(), 0, timeout) };
    -(libc::EAGAIN as isize)
}

unsafe extern "C" fn strerror(
    _: *mut FidEq,
    number: c_int,
    _: *const c_void,
    _: *mut c_char,
    _: usize,
) -> *const c_char {
    // SAFETY: libc returns a string for every number.
    unsafe { libc::strerror(number) }
}

static DOMAIN: Ops = ops(close::<DomainObject>, no_bind, no_control);
static DOMAIN_OPS: OpsDomain = OpsDomain {
    size: size_of::<OpsDomain>(),
    av_open: av::open,
    cq_open: cq::open,
    endpoint: ep::open,
    scalable_ep: missing,
    cntr_open: cntr::open,
    poll_open: missing,
    stx_ctx: missing,
    srx_ctx: missing,
    query_atomic: atomic::query,
    query_collective: missing,
    endpoint2: missing,
};

unsafe extern "C" fn open_domain(
    _: *mut FidFabric,
    info: *mut Info,
    to: *mut *mut FidDomain,
    context: *mut c_void,
) -> c_int {
    let Ok(card) = Card::open_any() else { return -libc::ENODEV };
    let Ok(Some(host)) = card.host() else { return -libc::ENETDOWN };
    // SAFETY: the program passes what fi_getinfo has returned.
    let mr_mode = unsafe { (*info).domain_attr.as_ref().map_or(0, |domain| domain.mr_mode) };
    let fid = Fid { fclass: FI_CLASS_DOMAIN, context, ops: &DOMAIN };
    let domain = Arc::new(Domain { card, host, mr_mode, regions: Arc::default() });
    give(DomainObject { fid: FidDomain { fid, ops: &DOMAIN_OPS, mr: &region::OPS }, domain }, to)
}
