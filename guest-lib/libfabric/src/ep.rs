//! Endpoints of reliable datagrams as libfabric's objects: fi_endpoint(3), fi_msg(3), fi_tagged(3),
//! fi_rma(3).

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use crate::abi::*;
use crate::av::{AvObject, copy_address};
use crate::cntr::CntrObject;
use crate::cq::CqObject;
use crate::domain::DomainObject;
use crate::endpoint::{Endpoint, Sink};
use crate::epobject::{EpObject, INJECT, Transmit, calls, of};
use crate::memory::Area;
use crate::object::give;
use crate::{atomic, info};

static FID: Ops = ops(close, bind, control);
static OPS: OpsEp = OpsEp {
    size: size_of::<OpsEp>(),
    cancel,
    getopt,
    setopt,
    tx_ctx: missing,
    rx_ctx: missing,
    rx_size_left: missing,
    tx_size_left: missing,
};
static CM: OpsCm = OpsCm {
    size: size_of::<OpsCm>(),
    setname: missing,
    getname,
    getpeer: missing,
    connect: missing,
    listen: missing,
    accept: missing,
    reject: missing,
    shutdown: missing,
    join: missing,
};
static COLLECTIVE: OpsCollective =
    OpsCollective { size: size_of::<OpsCollective>(), functions: [missing; 13] };
static MSG: OpsMsg = OpsMsg {
    size: size_of::<OpsMsg>(),
    recv,
    recvv,
    recvmsg,
    send,
    sendv,
    sendmsg,
    inject,
    senddata,
    injectdata,
};
static TAGGED: OpsTagged = OpsTagged {
    size: size_of::<OpsTagged>(),
    recv: trecv,
    recvv: trecvv,
    recvmsg: trecvmsg,
    send: tsend,
    sendv: tsendv,
    sendmsg: tsendmsg,
    inject: tinject,
    senddata: tsenddata,
    injectdata: tinjectdata,
};
static RMA: OpsRma = OpsRma {
    size: size_of::<OpsRma>(),
    read,
    readv,
    readmsg,
    write,
    writev,
    writemsg,
    inject: inject_write,
    writedata,
    injectdata: inject_writedata,
};

pub(crate) unsafe extern "C" fn open(
    domain: *mut FidDomain,
    info: *mut Info,
    to: *mut *mut FidEp,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the program passes a domain of this provider, and what fi_getinfo has returned.
    let (domain, info) = unsafe { (&(*domain.cast::<DomainObject>()).domain, &*info) };
    // Without this capability, calls pass anything as the address to receive from.
    let is_directed = info.caps & FI_DIRECTED_RECV != 0;
    let endpoint = match Endpoint::new(domain, info::source_of(info)) {
        Ok(endpoint) => endpoint,
        Err(error) => return -error,
    };
    // SAFETY: as above.
    unsafe {
        let tx_flags = info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags);
        let rx_flags = info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags);
        endpoint.tx_flags.store(tx_flags, Ordering::Relaxed);
        endpoint.rx_flags.store(rx_flags, Ordering::Relaxed);
    }
    let fid = Fid { fclass: FI_CLASS_EP, context, ops: &FID };
    let fid = FidEp {
        fid,
        ops: &OPS,
        cm: &CM,
        msg: &MSG,
        rma: &RMA,
        tagged: &TAGGED,
        atomic: &atomic::OPS,
        collective: &COLLECTIVE,
    };
    give(EpObject { fid, endpoint, is_directed }, to)
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    // SAFETY: the program closes what `open` has given to it, once.
    unsafe { Box::from_raw(fid.cast::<EpObject>()) }.endpoint.close();
    0
}

unsafe extern "C" fn bind(fid: *mut Fid, other: *mut Fid, flags: u64) -> c_int {
    // SAFETY: the program passes an endpoint and another object of this provider.
    unsafe {
        let endpoint = &of(fid.cast()).endpoint;
        match (*other).fclass {
            FI_CLASS_AV => match endpoint.av.set((*other.cast::<AvObject>()).av.clone()) {
                Ok(()) => 0,
                Err(_) => -libc::EINVAL,
            },
            FI_CLASS_CQ => {
                let (queue, is_selective) =
                    (&(*other.cast::<CqObject>()).queue, flags & FI_SELECTIVE_COMPLETION != 0);
                queue.watched().add(endpoint.clone());
                for (kind, sink) in [(FI_SEND, &endpoint.transmit), (FI_RECV, &endpoint.receive)] {
                    if flags & kind != 0 && sink.set(Sink { queue: queue.clone(), is_selective }).is_err() {
                        return -libc::EINVAL;
                    }
                }
                0
            }
            FI_CLASS_CNTR => {
                let counter = &(*other.cast::<CntrObject>()).counter;
                counter.watched().add(endpoint.clone());
                endpoint.count_by(counter, flags);
                0
            }
            FI_CLASS_EQ => 0,
            _ => -libc::ENOSYS,
        }
    }
}

unsafe extern "C" fn control(fid: *mut Fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: the program passes an endpoint of this provider.
    let endpoint = unsafe { &of(fid.cast()).endpoint };
    match command {
        FI_ENABLE => endpoint.enable().map_or_else(|error| -error, |()| 0),
        FI_GETOPSFLAG | FI_SETOPSFLAG => {
            // SAFETY: the program passes the place for flags.
            let flags = unsafe { &mut *argument.cast::<u64>() };
            let of_side = if *flags & FI_SEND != 0 { &endpoint.tx_flags } else { &endpoint.rx_flags };
            match command {
                FI_GETOPSFLAG => *flags = of_side.load(Ordering::Relaxed),
                _ => of_side.store(*flags & !(FI_SEND | FI_RECV), Ordering::Relaxed),
            }
            0
        }
        _ => -libc::ENOSYS,
    }
}

unsafe extern "C" fn cancel(fid: *mut Fid, context: *mut c_void) -> isize {
    // SAFETY: the program passes an endpoint of this provider.
    let endpoint = unsafe { &of(fid.cast()).endpoint };
    let mut inner = endpoint.inner();
    let found = inner.engine.cancel(context as usize);
    endpoint.settle(&mut inner);
    if found { 0 } else { -(libc::ENOENT as isize) }
}

unsafe extern "C" fn getopt(
    fid: *mut Fid,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: *mut usize,
) -> c_int {
    if (level, option) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -libc::ENOPROTOOPT;
    }
    // SAFETY: the program passes as much room as it says.
    unsafe {
        if std::mem::replace(&mut *length, size_of::<usize>()) < size_of::<usize>() {
            return -FI_ETOOSMALL;
        }
        *value.cast::<usize>() = of(fid.cast()).endpoint.inner().engine.least_room;
    }
    0
}

unsafe extern "C" fn setopt(
    fid: *mut Fid,
    level: c_int,
    option: c_int,
    value: *const c_void,
    length: usize,
) -> c_int {
    if (level, option) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
        return -libc::ENOPROTOOPT;
    }
    if length < size_of::<usize>() {
        return -FI_ETOOSMALL;
    }
    // SAFETY: the program passes an endpoint, and as many bytes as it says.
    unsafe { of(fid.cast()).endpoint.inner().engine.least_room = *value.cast::<usize>() };
    0
}

unsafe extern "C" fn getname(fid: *mut Fid, to: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: the program passes an endpoint, and as much room as it says.
    let fits = unsafe { copy_address(of(fid.cast()).endpoint.address, to, length) };
    if fits { 0 } else { -FI_ETOOSMALL }
}

// What follows are libfabric's calls, one expression each. They require what fi_msg(3),
// fi_tagged(3) and fi_rma(3) say: an endpoint of this provider, and buffers that stay until the
// operation completes.

type Vectors = *const c_void;
type Descriptors = *mut *mut c_void;
const NONE: *mut c_void = ptr::null_mut();

calls! {
    recv(to: *mut c_void, length: usize, _d: *mut c_void, from: u64, context: *mut c_void) =
        |ep| ep.receive(Area::one(to.cast(), length), from, context, None, ep.receive_flags());
    recvv(to: Vectors, _d: Descriptors, count: usize, from: u64, context: *mut c_void) =
        |ep| ep.receive(Area::many(to.cast(), count), from, context, None, ep.receive_flags());
    recvmsg(msg: *const Msg, flags: u64) = |ep| {
        let msg = &*msg;
        ep.receive(Area::many(msg.msg_iov.cast(), msg.iov_count), msg.addr, msg.context, None, flags)
    };
    send(from: *const c_void, length: usize, _d: *mut c_void, to: u64, context: *mut c_void) = |ep| ep.transmit(
        Transmit { area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: None, data: None });
    sendv(from: Vectors, _d: Descriptors, count: usize, to: u64, context: *mut c_void) = |ep| ep.transmit(
        Transmit { area: Area::many(from.cast(), count), to, context, flags: ep.default_flags(), tag: None, data: None });
    sendmsg(msg: *const Msg, flags: u64) = |ep| {
        let msg = &*msg;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let area = Area::many(msg.msg_iov.cast(), msg.iov_count);
        ep.transmit(Transmit { area, to: msg.addr, context: msg.context, flags, tag: None, data })
    };
    inject(from: *const c_void, length: usize, to: u64) = |ep| ep.transmit(
        Transmit { area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: None, data: None });
    senddata(from: *const c_void, length: usize, _d: *mut c_void, data: u64, to: u64, context: *mut c_void) =
        |ep| ep.transmit(Transmit {
            area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: None, data: Some(data) });
    injectdata(from: *const c_void, length: usize, data: u64, to: u64) = |ep| ep.transmit(Transmit {
        area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: None, data: Some(data) });

    trecv(to: *mut c_void, length: usize, _d: *mut c_void, from: u64, tag: u64, ignore: u64, context: *mut c_void) =
        |ep| ep.receive(
            Area::one(to.cast(), length), from, context, Some((tag, ignore)), ep.receive_flags());
    trecvv(to: Vectors, _d: Descriptors, count: usize, from: u64, tag: u64, ignore: u64, context: *mut c_void) =
        |ep| ep.receive(
            Area::many(to.cast(), count), from, context, Some((tag, ignore)), ep.receive_flags());
    trecvmsg(msg: *const MsgTagged, flags: u64) = |ep| {
        let msg = &*msg;
        let area = Area::many(msg.msg_iov.cast(), msg.iov_count);
        ep.receive(area, msg.addr, msg.context, Some((msg.tag, msg.ignore)), flags)
    };
    tsend(from: *const c_void, length: usize, _d: *mut c_void, to: u64, tag: u64, context: *mut c_void) =
        |ep| ep.transmit(Transmit {
            area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: Some(tag), data: None });
    tsendv(from: Vectors, _d: Descriptors, count: usize, to: u64, tag: u64, context: *mut c_void) =
        |ep| ep.transmit(Transmit {
            area: Area::many(from.cast(), count), to, context, flags: ep.default_flags(), tag: Some(tag), data: None });
    tsendmsg(msg: *const MsgTagged, flags: u64) = |ep| {
        let msg = &*msg;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        let area = Area::many(msg.msg_iov.cast(), msg.iov_count);
        ep.transmit(Transmit { area, to: msg.addr, context: msg.context, flags, tag: Some(msg.tag), data })
    };
    tinject(from: *const c_void, length: usize, to: u64, tag: u64) = |ep| ep.transmit(Transmit {
        area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: Some(tag), data: None });
    tsenddata(
        from: *const c_void, length: usize, _d: *mut c_void, data: u64, to: u64, tag: u64, context: *mut c_void
    ) = |ep| ep.transmit(Transmit {
        area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: Some(tag), data: Some(data) });
    tinjectdata(from: *const c_void, length: usize, data: u64, to: u64, tag: u64) = |ep| ep.transmit(Transmit {
        area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: Some(tag), data: Some(data) });

    read(to: *mut c_void, length: usize, _d: *mut c_void, from: u64, place: u64, key: u64, context: *mut c_void) =
        |ep| ep.access(Transmit {
            area: Area::one(to.cast(), length), to: from, context, flags: ep.default_flags(), tag: None, data: None },
            (key, place), false);
    readv(to: Vectors, _d: Descriptors, count: usize, from: u64, place: u64, key: u64, context: *mut c_void) =
        |ep| ep.access(Transmit {
            area: Area::many(to.cast(), count), to: from, context, flags: ep.default_flags(), tag: None, data: None },
            (key, place), false);
    readmsg(msg: *const MsgRma, flags: u64) = |ep| ep.access_by(&*msg, flags, false);
    write(from: *const c_void, length: usize, _d: *mut c_void, to: u64, place: u64, key: u64, context: *mut c_void) =
        |ep| ep.access(Transmit {
            area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: None, data: None },
            (key, place), true);
    writev(from: Vectors, _d: Descriptors, count: usize, to: u64, place: u64, key: u64, context: *mut c_void) =
        |ep| ep.access(Transmit {
            area: Area::many(from.cast(), count), to, context, flags: ep.default_flags(), tag: None, data: None },
            (key, place), true);
    writemsg(msg: *const MsgRma, flags: u64) = |ep| ep.access_by(&*msg, flags, true);
    inject_write(from: *const c_void, length: usize, to: u64, place: u64, key: u64) = |ep| ep.access(Transmit {
        area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: None, data: None },
        (key, place), true);
    writedata(
        from: *const c_void, length: usize, _d: *mut c_void, data: u64, to: u64, place: u64, key: u64,
        context: *mut c_void
    ) = |ep| ep.access(Transmit {
        area: Area::one(from.cast(), length), to, context, flags: ep.default_flags(), tag: None, data: Some(data) },
        (key, place), true);
    inject_writedata(from: *const c_void, length: usize, data: u64, to: u64, place: u64, key: u64) =
        |ep| ep.access(Transmit {
            area: Area::one(from.cast(), length), to, context: NONE, flags: INJECT, tag: None, data: Some(data) },
            (key, place), true);
}
