//! Atomic operations as libfabric's calls: fi_atomic(3).

use std::ffi::{c_int, c_void};
use std::ptr;

use crate::abi::*;
use crate::engine::LONGEST_ATOMIC;
use crate::engine::atomic::{Atomic, Form, Operands};
use crate::epobject::{EpObject, INJECT, Transmit, calls};
use crate::memory::Area;

pub(crate) static OPS: OpsAtomic = OpsAtomic {
    size: size_of::<OpsAtomic>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

/// `fi_query_atomic`.
pub(crate) unsafe extern "C" fn query(
    _: *mut FidDomain,
    datatype: u32,
    op: u32,
    attr: *mut AtomicAttr,
    flags: u64,
) -> c_int {
    let form = match flags & (FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC) {
        0 => Form::Update,
        FI_FETCH_ATOMIC => Form::Fetch,
        FI_COMPARE_ATOMIC => Form::Compare,
        _ => return -libc::EINVAL,
    };
    match (Atomic { datatype, op, form }).size() {
        Some(size) => {
            // SAFETY: the program passes the place for the answer.
            unsafe { *attr = AtomicAttr { count: LONGEST_ATOMIC / size, size } };
            0
        }
        None => -libc::EOPNOTSUPP,
    }
}

unsafe fn valid(atomic: Atomic, count: *mut usize) -> c_int {
    match atomic.size() {
        Some(size) => {
            // SAFETY: the program passes the place for the answer.
            unsafe { *count = LONGEST_ATOMIC / size };
            0
        }
        None => -libc::EOPNOTSUPP,
    }
}

/// Declares the functions that tell what is supported.
macro_rules! valids {
    ($($name:ident: $form:expr;)*) => {$(
        unsafe extern "C" fn $name(_: *mut FidEp, datatype: u32, op: u32, count: *mut usize) -> c_int {
            // SAFETY: the program keeps the rules of fi_atomic(3).
            unsafe { valid(Atomic { datatype, op, form: $form }, count) }
        }
    )*};
}

valids! {
    writevalid: Form::Update;
    readwritevalid: Form::Fetch;
    compwritevalid: Form::Compare;
}

/// Buffers of elements, as the calls pass them.
#[derive(Clone, Copy)]
enum Elements {
    One(*const c_void, usize),
    Many(*const Ioc, usize),
}
use Elements::{Many, One};

const NONE: Elements = Many(ptr::null(), 0);

impl Elements {
    unsafe fn area(self, size: usize) -> Area {
        // SAFETY: the program keeps the rules of fi_atomic(3).
        unsafe {
            match self {
                One(buffer, count) => Area::one(buffer.cast(), count.saturating_mul(size)),
                Many(vectors, count) => Area::elements(vectors.cast(), count, size),
            }
        }
    }
}

/// An operation, as all calls describe it.
struct Call {
    atomic: Atomic,
    to: u64,
    /// Key and address.
    place: (u64, u64),
    operand: Elements,
    compare: Elements,
    result: Elements,
    context: *mut c_void,
    flags: u64,
}

impl Call {
    unsafe fn run(self, ep: &EpObject) -> isize {
        let Some(size) = self.atomic.size() else { return -(libc::EOPNOTSUPP as isize) };
        // SAFETY: the program keeps the rules of fi_atomic(3).
        let operands = unsafe {
            Operands {
                operand: self.operand.area(size),
                compare: self.compare.area(size),
                result: if self.atomic.form == Form::Update { None } else { Some(self.result.area(size)) },
            }
        };
        let Call { to, context, flags, .. } = self;
        let transmit = Transmit { area: Area::default(), to, context, flags, tag: None, data: None };
        ep.change(transmit, self.place, self.atomic, operands)
    }

    unsafe fn of_message(msg: &MsgAtomic, form: Form, flags: u64) -> Option<Self> {
        // SAFETY: the program keeps the rules of fi_atomic(3).
        let remote = unsafe { msg.rma_iov.as_ref() }.filter(|_| msg.rma_iov_count == 1)?;
        Some(Call {
            atomic: Atomic { datatype: msg.datatype, op: msg.op, form },
            to: msg.addr,
            place: (remote.key, remote.addr),
            operand: Many(msg.msg_iov, msg.iov_count),
            compare: NONE,
            result: NONE,
            context: msg.context,
            flags,
        })
    }
}

/// Runs a call whose description may be invalid.
unsafe fn run(ep: &EpObject, call: Option<Call>) -> isize {
    // SAFETY: the program keeps the rules of fi_atomic(3).
    call.map_or(-(libc::EINVAL as isize), |call| unsafe { call.run(ep) })
}

type Descriptor = *mut c_void;
type Descriptors = *mut *mut c_void;

calls! {
    write(
        from: *const c_void, count: usize, _d: Descriptor, to: u64, place: u64, key: u64, datatype: u32, op: u32,
        context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Update }, to, place: (key, place), operand: One(from, count),
        compare: NONE, result: NONE, context, flags: ep.default_flags() }.run(ep);
    writev(
        from: *const Ioc, _d: Descriptors, count: usize, to: u64, place: u64, key: u64, datatype: u32, op: u32,
        context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Update }, to, place: (key, place), operand: Many(from, count),
        compare: NONE, result: NONE, context, flags: ep.default_flags() }.run(ep);
    writemsg(msg: *const MsgAtomic, flags: u64) = |ep| run(ep, Call::of_message(&*msg, Form::Update, flags));
    inject(from: *const c_void, count: usize, to: u64, place: u64, key: u64, datatype: u32, op: u32) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Update }, to, place: (key, place), operand: One(from, count),
        compare: NONE, result: NONE, context: ptr::null_mut(), flags: INJECT }.run(ep);

    readwrite(
        from: *const c_void, count: usize, _d: Descriptor, result: *mut c_void, _r: Descriptor, to: u64, place: u64,
        key: u64, datatype: u32, op: u32, context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Fetch }, to, place: (key, place), operand: One(from, count),
        compare: NONE, result: One(result, count), context, flags: ep.default_flags() }.run(ep);
    readwritev(
        from: *const Ioc, _d: Descriptors, count: usize, result: *mut Ioc, _r: Descriptors, results: usize, to: u64,
        place: u64, key: u64, datatype: u32, op: u32, context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Fetch }, to, place: (key, place), operand: Many(from, count),
        compare: NONE, result: Many(result, results), context, flags: ep.default_flags() }.run(ep);
    readwritemsg(msg: *const MsgAtomic, result: *mut Ioc, _r: Descriptors, results: usize, flags: u64) = |ep| {
        let call = Call::of_message(&*msg, Form::Fetch, flags);
        run(ep, call.map(|call| Call { result: Many(result, results), ..call }))
    };

    compwrite(
        from: *const c_void, count: usize, _d: Descriptor, compare: *const c_void, _c: Descriptor,
        result: *mut c_void, _r: Descriptor, to: u64, place: u64, key: u64, datatype: u32, op: u32,
        context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Compare }, to, place: (key, place), operand: One(from, count),
        compare: One(compare, count), result: One(result, count), context, flags: ep.default_flags() }.run(ep);
    compwritev(
        from: *const Ioc, _d: Descriptors, count: usize, compare: *const Ioc, _c: Descriptors, compares: usize,
        result: *mut Ioc, _r: Descriptors, results: usize, to: u64, place: u64, key: u64, datatype: u32, op: u32,
        context: *mut c_void
    ) = |ep| Call {
        atomic: Atomic { datatype, op, form: Form::Compare }, to, place: (key, place), operand: Many(from, count),
        compare: Many(compare, compares), result: Many(result, results), context, flags: ep.default_flags() }.run(ep);
    compwritemsg(
        msg: *const MsgAtomic, compare: *const Ioc, _c: Descriptors, compares: usize, result: *mut Ioc,
        _r: Descriptors, results: usize, flags: u64
    ) = |ep| {
        let call = Call::of_message(&*msg, Form::Compare, flags);
        run(ep, call.map(|call| Call { compare: Many(compare, compares), result: Many(result, results), ..call }))
    };
}
