//! Memory registration (fi_mr(3)).

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::*;
use crate::domain::DomainObject;
use crate::engine::regions::{Region, Regions};
use crate::memory::Area;
use crate::object::give;

#[repr(C)]
struct MrObject {
    fid: FidMr,
    regions: Arc<Mutex<Regions>>,
}

static FID: Ops = ops(close, no_bind, no_control);
pub(crate) static OPS: OpsMr = OpsMr { size: size_of::<OpsMr>(), reg, regv, regattr };

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: the program closes what `register` has given to it, once.
    let object = unsafe { Box::from_raw(fid.cast::<MrObject>()) };
    object.regions.lock().unwrap_or_else(PoisonError::into_inner).remove(object.fid.key);
    0
}

unsafe extern "C" fn reg(
    fid: *mut Fid,
    buffer: *const c_void,
    length: usize,
    access: u64,
    _: u64,
    key: u64,
    _: u64,
    to: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program keeps the buffer until it closes the region.
    unsafe { register(fid, Area::one(buffer.cast(), length), access, key, to, context) }
}

unsafe extern "C" fn regv(
    fid: *mut Fid,
    vectors: *const c_void,
    count: usize,
    access: u64,
    _: u64,
    key: u64,
    _: u64,
    to: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program keeps the buffers until it closes the region.
    unsafe { register(fid, Area::many(vectors.cast(), count), access, key, to, context) }
}

unsafe extern "C" fn regattr(fid: *mut Fid, attr: *const MrAttr, _: u64, to: *mut *mut FidMr) -> c_int {
    // SAFETY: the program keeps the buffers until it closes the region.
    unsafe {
        let attr = &*attr;
        let area = Area::many(attr.mr_iov.cast(), attr.iov_count);
        register(fid, area, attr.access, attr.requested_key, to, attr.context)
    }
}

unsafe fn register(
    fid: *mut Fid,
    area: Area,
    access: u64,
    key: u64,
    to: *mut *mut FidMr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a domain of this provider.
    let domain = unsafe { &(*fid.cast::<DomainObject>()).domain };
    let base = if domain.mr_mode & FI_MR_VIRT_ADDR != 0 { area.start() as u64 } else { 0 };
    let key = (domain.mr_mode & FI_MR_PROV_KEY == 0).then_some(key);
    let region = Region {
        area,
        base,
        readable: access & FI_REMOTE_READ != 0,
        writable: access & FI_REMOTE_WRITE != 0,
    };
    let regions = domain.regions.clone();
    let inserted = regions.lock().unwrap_or_else(PoisonError::into_inner).insert(key, region);
    let Some(key) = inserted else { return -FI_ENOKEY };
    let fid = Fid { fclass: FI_CLASS_MR, context, ops: &FID };
    give(MrObject { fid: FidMr { fid, mem_desc: std::ptr::null_mut(), key }, regions }, to)
}
