//! Fabrics, and event queues, which stay empty: nothing here happens asynchronously (fi_fabric(3),
//! fi_eq(3)).

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use crate::abi::*;
use crate::cntr::CntrObject;
use crate::cq::CqObject;
use crate::domain;

static FABRIC: Ops = ops(close::<FidFabric>, no_bind, no_control);
static FABRIC_OPS: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: domain::open,
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

/// Gives an object to the program, which closes it.
pub(crate) fn give<T, F>(object: T, to: *mut *mut F) -> c_int {
    // SAFETY: the program passes the place for the object. Objects begin with what it sees of them.
    unsafe { *to = Box::into_raw(Box::new(object)).cast() };
    0
}

/// Closes an object that only has to be freed.
pub(crate) unsafe extern "C" fn close<T>(fid: *mut Fid) -> c_int {
    // SAFETY: the program closes what `give` has given to it, once.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
    0
}

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
