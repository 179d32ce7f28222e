//! What libfabric 1.3 to 2.x expects of a provider: its structures, functions and numbers, as far
//! as this provider uses them (fabric.h, fi_domain.h, fi_endpoint.h, fi_eq.h, fi_cm.h, fi_rma.h,
//! fi_tagged.h, fi_atomic.h, fi_prov.h). Fields are named as there. A test compares them with the
//! headers of Debian's package libfabric-dev.

use std::ffi::{c_char, c_int, c_void};

/// Declares numbers of the interface.
macro_rules! numbers {
    ($($type:ty: $($name:ident = $value:expr),* $(,)?;)*) => {
        $($(pub(crate) const $name: $type = $value;)*)*

        /// Names and values.
        #[cfg(test)]
        pub(crate) const NUMBERS: &[(&str, i128)] = &[$($((stringify!($name), $name as i128)),*),*];
    };
}

numbers! {
    u64:
        FI_MSG = 1 << 1, FI_RMA = 1 << 2, FI_TAGGED = 1 << 3, FI_ATOMIC = 1 << 4, FI_READ = 1 << 8, FI_WRITE = 1 << 9,
        FI_RECV = 1 << 10, FI_SEND = 1 << 11, FI_REMOTE_READ = 1 << 12, FI_REMOTE_WRITE = 1 << 13,
        FI_MULTI_RECV = 1 << 16, FI_REMOTE_CQ_DATA = 1 << 17, FI_PEEK = 1 << 19, FI_COMPLETION = 1 << 24,
        FI_INJECT = 1 << 25, FI_DELIVERY_COMPLETE = 1 << 28, FI_MATCH_COMPLETE = 1 << 31,
        FI_LOCAL_COMM = 1 << 51, FI_REMOTE_COMM = 1 << 52, FI_RMA_EVENT = 1 << 56, FI_SOURCE = 1 << 57, FI_DIRECTED_RECV = 1 << 59,
        FI_CLAIM = 1 << 59, FI_DISCARD = 1 << 58, FI_SELECTIVE_COMPLETION = 1 << 59, FI_ORDER_SAS = 1 << 8,
        FI_ORDER_RAW = 1 << 1, FI_ORDER_WAW = 1 << 4, FI_ORDER_SAW = 1 << 7, FI_ORDER_RMA_RAW = 1 << 33,
        FI_ORDER_RMA_WAW = 1 << 35, FI_ORDER_ATOMIC_RAR = 1 << 36, FI_ORDER_ATOMIC_RAW = 1 << 37,
        FI_ORDER_ATOMIC_WAR = 1 << 38, FI_ORDER_ATOMIC_WAW = 1 << 39, FI_FETCH_ATOMIC = 1 << 58,
        FI_COMPARE_ATOMIC = 1 << 59,
        FI_ADDR_UNSPEC = u64::MAX;
    u32:
        FI_INT8 = 0, FI_UINT8 = 1, FI_INT16 = 2, FI_UINT16 = 3, FI_INT32 = 4, FI_UINT32 = 5, FI_INT64 = 6,
        FI_UINT64 = 7, FI_FLOAT = 8, FI_DOUBLE = 9,
        FI_MIN = 0, FI_MAX = 1, FI_SUM = 2, FI_PROD = 3, FI_LOR = 4, FI_LAND = 5, FI_BOR = 6, FI_BAND = 7,
        FI_LXOR = 8, FI_BXOR = 9, FI_ATOMIC_READ = 10, FI_ATOMIC_WRITE = 11, FI_CSWAP = 12, FI_CSWAP_NE = 13,
        FI_CSWAP_LE = 14, FI_CSWAP_LT = 15, FI_CSWAP_GE = 16, FI_CSWAP_GT = 17, FI_MSWAP = 18;
    i32:
        FI_ECANCELED = libc::ECANCELED, FI_ENOMSG = libc::ENOMSG, FI_ETOOSMALL = 257, FI_EAVAIL = 259,
        FI_ETRUNC = 265, FI_ENOKEY = 266, FI_ENOAV = 267;
    c_int:
        FI_MR_VIRT_ADDR = 1 << 4, FI_MR_PROV_KEY = 1 << 6, FI_AV_MAP = 1,
        FI_AV_TABLE = 2, FI_PROGRESS_AUTO = 1, FI_PROGRESS_MANUAL = 2, FI_RM_ENABLED = 2, FI_EP_RDM = 3,
        FI_THREAD_SAFE = 1, FI_WAIT_NONE = 0, FI_WAIT_UNSPEC = 1, FI_WAIT_FD = 3, FI_WAIT_YIELD = 5,
        FI_CQ_FORMAT_UNSPEC = 0, FI_CQ_FORMAT_CONTEXT = 1, FI_CQ_FORMAT_MSG = 2, FI_CQ_FORMAT_DATA = 3,
        FI_CQ_FORMAT_TAGGED = 4, FI_GETOPSFLAG = 2, FI_SETOPSFLAG = 3, FI_GETWAIT = 5, FI_ENABLE = 6,
        FI_GETWAITOBJ = 16, FI_OPT_ENDPOINT = 0, FI_OPT_MIN_MULTI_RECV = 0;
    usize:
        FI_CLASS_FABRIC = 1, FI_CLASS_DOMAIN = 2, FI_CLASS_EP = 3, FI_CLASS_AV = 11, FI_CLASS_MR = 12,
        FI_CLASS_EQ = 13, FI_CLASS_CQ = 14, FI_CLASS_CNTR = 15;
}

/// Format of addresses and protocol of endpoints. Providers choose numbers of the upper half.
pub(crate) const FI_ADDR_HAMLYN: u32 = 1 << 31 | 0x4841;
pub(crate) const FI_PROTO_HAMLYN: u32 = FI_ADDR_HAMLYN;

/// A function that this provider does not have: it returns `-ENOSYS`, as an `int` and as an
/// `ssize_t`.
pub(crate) type Missing = extern "C" fn() -> isize;

pub(crate) extern "C" fn missing() -> isize {
    -(libc::ENOSYS as isize)
}

/// Declares structures that libfabric or its programs read or write.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            #[repr(C)]
            pub(crate) struct $name { $(pub(crate) $field: $type),* }
        )*

        /// Names, lengths, and the fields' offsets.
        #[cfg(test)]
        pub(crate) const STRUCTURES: &[(&str, usize, &[(&str, usize)])] = &[$((
            stringify!($name),
            size_of::<$name>(),
            &[$((stringify!($field), std::mem::offset_of!($name, $field))),*],
        )),*];
    };
}

pub(crate) type Close = unsafe extern "C" fn(*mut Fid) -> c_int;
pub(crate) type Bind = unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int;
pub(crate) type Control = unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int;

structures! {
    Ops { size: usize, close: Close, bind: Bind, control: Control, ops_open: Missing, tostr: Missing, ops_set: Missing }
    Fid { fclass: usize, context: *mut c_void, ops: *const Ops }

    TxAttr {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64, inject_size: usize, size: usize,
        iov_limit: usize, rma_iov_limit: usize, tclass: u32,
    }
    RxAttr {
        caps: u64, mode: u64, op_flags: u64, msg_order: u64, comp_order: u64, total_buffered_recv: usize,
        size: usize, iov_limit: usize,
    }
    EpAttr {
        r#type: c_int, protocol: u32, protocol_version: u32, max_msg_size: usize, msg_prefix_size: usize,
        max_order_raw_size: usize, max_order_war_size: usize, max_order_waw_size: usize, mem_tag_format: u64,
        tx_ctx_cnt: usize, rx_ctx_cnt: usize, auth_key_size: usize, auth_key: *mut u8,
    }
    DomainAttr {
        domain: *mut c_void, name: *mut c_char, threading: c_int, control_progress: c_int, data_progress: c_int,
        resource_mgmt: c_int, av_type: c_int, mr_mode: c_int, mr_key_size: usize, cq_data_size: usize,
        cq_cnt: usize, ep_cnt: usize, tx_ctx_cnt: usize, rx_ctx_cnt: usize, max_ep_tx_ctx: usize,
        max_ep_rx_ctx: usize, max_ep_stx_ctx: usize, max_ep_srx_ctx: usize, cntr_cnt: usize, mr_iov_limit: usize,
        caps: u64, mode: u64, auth_key: *mut u8, auth_key_size: usize, max_err_data: usize, mr_cnt: usize,
        tclass: u32, max_ep_auth_key: usize, max_group_id: u32,
    }
    FabricAttr {
        fabric: *mut c_void, name: *mut c_char, prov_name: *mut c_char, prov_version: u32, api_version: u32,
    }
    Info {
        next: *mut Info, caps: u64, mode: u64, addr_format: u32, src_addrlen: usize, dest_addrlen: usize,
        src_addr: *mut c_void, dest_addr: *mut c_void, handle: *mut Fid, tx_attr: *mut TxAttr,
        rx_attr: *mut RxAttr, ep_attr: *mut EpAttr, domain_attr: *mut DomainAttr, fabric_attr: *mut FabricAttr,
        nic: *mut c_void,
    }
    Provider {
        version: u32, fi_version: u32, context: [*mut c_void; 4], name: *const c_char,
        getinfo: unsafe extern "C" fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int,
        fabric: unsafe extern "C" fn(*mut FabricAttr, *mut *mut FidFabric, *mut c_void) -> c_int,
        cleanup: Option<extern "C" fn()>,
    }

    FidFabric { fid: Fid, ops: *const OpsFabric, api_version: u32 }
    OpsFabric {
        size: usize,
        domain: unsafe extern "C" fn(*mut FidFabric, *mut Info, *mut *mut FidDomain, *mut c_void) -> c_int,
        passive_ep: Missing,
        eq_open: unsafe extern "C" fn(*mut FidFabric, *mut c_void, *mut *mut FidEq, *mut c_void) -> c_int,
        wait_open: Missing,
        trywait: unsafe extern "C" fn(*mut FidFabric, *mut *mut Fid, c_int) -> c_int,
        domain2: Missing,
    }
    FidEq { fid: Fid, ops: *const OpsEq }
    OpsEq {
        size: usize,
        read: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, u64) -> isize,
        readerr: unsafe extern "C" fn(*mut FidEq, *mut c_void, u64) -> isize,
        write: Missing,
        sread: unsafe extern "C" fn(*mut FidEq, *mut u32, *mut c_void, usize, c_int, u64) -> isize,
        strerror: unsafe extern "C" fn(*mut FidEq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }

    FidDomain { fid: Fid, ops: *const OpsDomain, mr: *const OpsMr }
    OpsDomain {
        size: usize,
        av_open: unsafe extern "C" fn(*mut FidDomain, *mut AvAttr, *mut *mut FidAv, *mut c_void) -> c_int,
        cq_open: unsafe extern "C" fn(*mut FidDomain, *mut CqAttr, *mut *mut FidCq, *mut c_void) -> c_int,
        endpoint: unsafe extern "C" fn(*mut FidDomain, *mut Info, *mut *mut FidEp, *mut c_void) -> c_int,
        scalable_ep: Missing,
        cntr_open: unsafe extern "C" fn(*mut FidDomain, *mut CntrAttr, *mut *mut FidCntr, *mut c_void) -> c_int,
        poll_open: Missing, stx_ctx: Missing, srx_ctx: Missing,
        query_atomic: unsafe extern "C" fn(*mut FidDomain, u32, u32, *mut AtomicAttr, u64) -> c_int,
        query_collective: Missing, endpoint2: Missing,
    }
    OpsMr {
        size: usize,
        reg: unsafe extern "C" fn(*mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut FidMr, *mut c_void) -> c_int,
        regv: unsafe extern "C" fn(*mut Fid, *const c_void, usize, u64, u64, u64, u64, *mut *mut FidMr, *mut c_void) -> c_int,
        regattr: unsafe extern "C" fn(*mut Fid, *const MrAttr, u64, *mut *mut FidMr) -> c_int,
    }
    FidMr { fid: Fid, mem_desc: *mut c_void, key: u64 }
    MrAttr {
        mr_iov: *const c_void, iov_count: usize, access: u64, offset: u64, requested_key: u64, context: *mut c_void,
    }
    AvAttr {
        r#type: c_int, rx_ctx_bits: c_int, count: usize, ep_per_node: usize, name: *const c_char,
        map_addr: *mut c_void, flags: u64,
    }
    FidAv { fid: Fid, ops: *const OpsAv }
    OpsAv {
        size: usize,
        insert: unsafe extern "C" fn(*mut FidAv, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
        insertsvc: unsafe extern "C" fn(*mut FidAv, *const c_char, *const c_char, *mut u64, u64, *mut c_void) -> c_int,
        insertsym: Missing,
        remove: unsafe extern "C" fn(*mut FidAv, *mut u64, usize, u64) -> c_int,
        lookup: unsafe extern "C" fn(*mut FidAv, u64, *mut c_void, *mut usize) -> c_int,
        straddr: unsafe extern "C" fn(*mut FidAv, *const c_void, *mut c_char, *mut usize) -> *const c_char,
        av_set: Missing,
    }

    CqAttr {
        size: usize, flags: u64, format: c_int, wait_obj: c_int, signaling_vector: c_int, wait_cond: c_int,
        wait_set: *mut c_void,
    }
    FidCq { fid: Fid, ops: *const OpsCq }
    OpsCq {
        size: usize,
        read: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize) -> isize,
        readfrom: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut u64) -> isize,
        readerr: unsafe extern "C" fn(*mut FidCq, *mut CqErrEntry, u64) -> isize,
        sread: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *const c_void, c_int) -> isize,
        sreadfrom: unsafe extern "C" fn(*mut FidCq, *mut c_void, usize, *mut u64, *const c_void, c_int) -> isize,
        signal: unsafe extern "C" fn(*mut FidCq) -> c_int,
        strerror: unsafe extern "C" fn(*mut FidCq, c_int, *const c_void, *mut c_char, usize) -> *const c_char,
    }
    /// The shorter formats are its beginning.
    CqTaggedEntry { op_context: *mut c_void, flags: u64, len: usize, buf: *mut c_void, data: u64, tag: u64 }
    CqErrEntry {
        op_context: *mut c_void, flags: u64, len: usize, buf: *mut c_void, data: u64, tag: u64, olen: usize,
        err: c_int, prov_errno: c_int, err_data: *mut c_void, err_data_size: usize,
    }

    CntrAttr { events: c_int, wait_obj: c_int, wait_set: *mut c_void, flags: u64 }
    FidCntr { fid: Fid, ops: *const OpsCntr }
    OpsCntr {
        size: usize,
        read: unsafe extern "C" fn(*mut FidCntr) -> u64,
        readerr: unsafe extern "C" fn(*mut FidCntr) -> u64,
        add: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        set: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        wait: unsafe extern "C" fn(*mut FidCntr, u64, c_int) -> c_int,
        adderr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
        seterr: unsafe extern "C" fn(*mut FidCntr, u64) -> c_int,
    }

    FidEp {
        fid: Fid, ops: *const OpsEp, cm: *const OpsCm, msg: *const OpsMsg, rma: *const OpsRma,
        tagged: *const OpsTagged, atomic: *const OpsAtomic, collective: *const OpsCollective,
    }
    OpsEp {
        size: usize,
        cancel: unsafe extern "C" fn(*mut Fid, *mut c_void) -> isize,
        getopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *mut c_void, *mut usize) -> c_int,
        setopt: unsafe extern "C" fn(*mut Fid, c_int, c_int, *const c_void, usize) -> c_int,
        tx_ctx: Missing, rx_ctx: Missing, rx_size_left: Missing, tx_size_left: Missing,
    }
    OpsCm {
        size: usize, setname: Missing,
        getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
        getpeer: Missing, connect: Missing, listen: Missing, accept: Missing, reject: Missing, shutdown: Missing,
        join: Missing,
    }
    OpsCollective { size: usize, functions: [Missing; 13] }
    AtomicAttr { count: usize, size: usize }
    Ioc { addr: *mut c_void, count: usize }
    RmaIoc { addr: u64, count: usize, key: u64 }
    MsgAtomic {
        msg_iov: *const Ioc, desc: *mut *mut c_void, iov_count: usize, addr: u64, rma_iov: *const RmaIoc,
        rma_iov_count: usize, datatype: u32, op: u32, context: *mut c_void, data: u64,
    }
    OpsAtomic {
        size: usize,
        write: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, u64, u32, u32, *mut c_void) -> isize,
        writev: unsafe extern "C" fn(*mut FidEp, *const Ioc, *mut *mut c_void, usize, u64, u64, u64, u32, u32, *mut c_void) -> isize,
        writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64, u32, u32) -> isize,
        readwrite: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, u64, u64, u64, u32, u32, *mut c_void
        ) -> isize,
        readwritev: unsafe extern "C" fn(
            *mut FidEp, *const Ioc, *mut *mut c_void, usize, *mut Ioc, *mut *mut c_void, usize, u64, u64, u64, u32, u32,
            *mut c_void
        ) -> isize,
        readwritemsg: unsafe extern "C" fn(*mut FidEp, *const MsgAtomic, *mut Ioc, *mut *mut c_void, usize, u64) -> isize,
        compwrite: unsafe extern "C" fn(
            *mut FidEp, *const c_void, usize, *mut c_void, *const c_void, *mut c_void, *mut c_void, *mut c_void, u64, u64,
            u64, u32, u32, *mut c_void
        ) -> isize,
        compwritev: unsafe extern "C" fn(
            *mut FidEp, *const Ioc, *mut *mut c_void, usize, *const Ioc, *mut *mut c_void, usize, *mut Ioc,
            *mut *mut c_void, usize, u64, u64, u64, u32, u32, *mut c_void
        ) -> isize,
        compwritemsg: unsafe extern "C" fn(
            *mut FidEp, *const MsgAtomic, *const Ioc, *mut *mut c_void, usize, *mut Ioc, *mut *mut c_void, usize, u64
        ) -> isize,
        writevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        readwritevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
        compwritevalid: unsafe extern "C" fn(*mut FidEp, u32, u32, *mut usize) -> c_int,
    }
    Msg {
        msg_iov: *const c_void, desc: *mut *mut c_void, iov_count: usize, addr: u64, context: *mut c_void, data: u64,
    }
    MsgTagged {
        msg_iov: *const c_void, desc: *mut *mut c_void, iov_count: usize, addr: u64, tag: u64, ignore: u64,
        context: *mut c_void, data: u64,
    }
    RmaIov { addr: u64, len: usize, key: u64 }
    MsgRma {
        msg_iov: *const c_void, desc: *mut *mut c_void, iov_count: usize, addr: u64, rma_iov: *const RmaIov,
        rma_iov_count: usize, context: *mut c_void, data: u64,
    }
    OpsMsg {
        size: usize,
        recv: unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        recvv: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, *mut c_void) -> isize,
        recvmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
        send: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
        sendv: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, *mut c_void) -> isize,
        sendmsg: unsafe extern "C" fn(*mut FidEp, *const Msg, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64) -> isize,
        senddata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, *mut c_void) -> isize,
        injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64) -> isize,
    }
    OpsTagged {
        size: usize,
        recv: unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
        recvv: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, u64, u64, *mut c_void) -> isize,
        recvmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
        send: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, *mut c_void) -> isize,
        sendv: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, u64, *mut c_void) -> isize,
        sendmsg: unsafe extern "C" fn(*mut FidEp, *const MsgTagged, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64) -> isize,
        senddata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
        injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64) -> isize,
    }
    OpsRma {
        size: usize,
        read: unsafe extern "C" fn(*mut FidEp, *mut c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
        readv: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, u64, u64, *mut c_void) -> isize,
        readmsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
        write: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, u64, *mut c_void) -> isize,
        writev: unsafe extern "C" fn(*mut FidEp, *const c_void, *mut *mut c_void, usize, u64, u64, u64, *mut c_void) -> isize,
        writemsg: unsafe extern "C" fn(*mut FidEp, *const MsgRma, u64) -> isize,
        inject: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64) -> isize,
        writedata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, *mut c_void, u64, u64, u64, u64, *mut c_void) -> isize,
        injectdata: unsafe extern "C" fn(*mut FidEp, *const c_void, usize, u64, u64, u64, u64) -> isize,
    }
}

/// Functions of objects that can neither be bound nor controlled.
pub(crate) unsafe extern "C" fn no_bind(_: *mut Fid, _: *mut Fid, _: u64) -> c_int {
    -libc::ENOSYS
}

pub(crate) unsafe extern "C" fn no_control(_: *mut Fid, _: c_int, _: *mut c_void) -> c_int {
    -libc::ENOSYS
}

pub(crate) const fn ops(close: Close, bind: Bind, control: Control) -> Ops {
    Ops { size: size_of::<Ops>(), close, bind, control, ops_open: missing, tostr: missing, ops_set: missing }
}
