//! What the provider offers (fi_getinfo(3)).

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use hamlyn::channel::Card;

use crate::abi::*;
use crate::address::{ADDRESS, Address};
use crate::engine::{DEPTH, LONGEST, LONGEST_INJECT};
use crate::node::host_of;

/// Version of libfabric's interface, 2.1: the upper half is the major number.
pub(crate) const API: u32 = 2 << 16 | 1;

const RECEIVE: u64 = FI_RECV | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
const REMOTE: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT;
const LOCAL: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;
const KINDS: u64 = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
const TX: u64 = KINDS | FI_SEND | FI_READ | FI_WRITE;
const RX: u64 = KINDS | RECEIVE | REMOTE;
const CAPS: u64 = TX | RX | LOCAL;
/// Each kind of operation in both directions.
const IMPLIED: [(u64, u64); 2] = [
    (FI_MSG | FI_TAGGED, FI_SEND | FI_RECV),
    (FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE),
];
/// What arrives in order: messages; messages, writes and reads after writes; atomic operations.
const ORDER: u64 = FI_ORDER_SAS
    | FI_ORDER_SAW
    | FI_ORDER_WAW
    | FI_ORDER_RAW
    | FI_ORDER_RMA_WAW
    | FI_ORDER_RMA_RAW
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;
/// Kinds of memory registration that a program may ask for. Without them, keys are the program's
/// own and addresses are offsets.
const MR_MODES: c_int = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
const MOST: usize = 1 << 16;

/// Allocates a zeroed structure that libfabric frees.
fn allocate<T>(value: T) -> *mut T {
    // SAFETY: the size is not zero, and memory of calloc is aligned for every structure of C.
    let memory: *mut T = unsafe { libc::calloc(1, size_of::<T>()) }.cast();
    if !memory.is_null() {
        // SAFETY: the memory is this function's own and large enough.
        unsafe { memory.write(value) };
    }
    memory
}

fn text(text: &str) -> *mut c_char {
    let Ok(text) = CString::new(text) else { return ptr::null_mut() };
    // SAFETY: the string ends with a NUL.
    unsafe { libc::strdup(text.as_ptr()) }
}

fn bytes(address: Option<Address>) -> (*mut c_void, usize) {
    address.map_or((ptr::null_mut(), 0), |address| (allocate(address.0).cast(), ADDRESS))
}

/// # Safety
/// The pointer is null or points to a string.
unsafe fn given<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// The address that a node and a service mean: a host, and an endpoint's name.
pub(crate) unsafe fn resolve(card: &Card, node: *const c_char, service: *const c_char) -> Option<Address> {
    // SAFETY: libfabric passes strings, or null.
    let (node, service) = unsafe { (given(node), given(service)) };
    Address::new(host_of(node?, card)?, &name_of(service?))
}

/// The name of the listener for a service.
pub(crate) fn name_of(service: &str) -> String {
    format!("fi.{service}")
}

/// `fi_getinfo` of this provider.
pub(crate) unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    found: *mut *mut Info,
) -> c_int {
    let Ok(card) = Card::open_any() else { return -libc::ENODATA };
    // SAFETY: libfabric passes null or a valid structure; so are those it points to.
    let hints = unsafe { hints.as_ref() };
    let asked = Asked::new(hints);
    if !asked.fits(card.model()) {
        return -libc::ENODATA;
    }
    let mut caps = if asked.caps == 0 { CAPS } else { asked.caps | LOCAL };
    for (kind, implied) in IMPLIED {
        if caps & kind != 0 && caps & implied == 0 {
            caps |= implied;
        }
    }
    // With FI_SOURCE, node and service are this end's; only the service matters then.
    let is_source = flags & FI_SOURCE != 0;
    // SAFETY: libfabric passes strings, or null.
    let (service_name, resolved) = unsafe { (given(service), resolve(&card, node, service)) };
    let own_host = || card.host().ok().flatten();
    let (source, destination) = match (is_source, service_name) {
        (true, Some(service)) => (own_host().and_then(|host| Address::new(host, &name_of(service))), None),
        (true, None) => (None, None),
        (false, _) if node.is_null() => (None, None),
        (false, _) if resolved.is_none() => return -libc::ENODATA,
        (false, _) => (None, resolved),
    };
    // Before 1.5 there were two modes, numbered 1 and 2.
    let mr_mode = if version < (1 << 16 | 5) { 2 } else { asked.mr_mode & MR_MODES };
    // The name of an endpoint is chosen when it is opened.
    let source = source.or(asked.source).or_else(|| own_host().map(Address::unnamed));
    let (src_addr, src_addrlen) = bytes(source);
    let (dest_addr, dest_addrlen) = bytes(destination.or(asked.destination));
    let info = allocate(Info {
        next: ptr::null_mut(),
        caps,
        mode: 0,
        addr_format: FI_ADDR_HAMLYN,
        src_addrlen,
        dest_addrlen,
        src_addr,
        dest_addr,
        handle: ptr::null_mut(),
        tx_attr: allocate(TxAttr {
            caps: caps & TX,
            mode: 0,
            op_flags: asked.tx_flags,
            msg_order: ORDER,
            comp_order: 0,
            inject_size: LONGEST_INJECT,
            size: DEPTH,
            iov_limit: 16,
            rma_iov_limit: 1,
            tclass: 0,
        }),
        rx_attr: allocate(RxAttr {
            caps: caps & RX,
            mode: 0,
            op_flags: asked.rx_flags,
            msg_order: ORDER,
            comp_order: 0,
            total_buffered_recv: 0,
            size: MOST,
            iov_limit: 16,
        }),
        ep_attr: allocate(EpAttr {
            r#type: FI_EP_RDM,
            protocol: FI_PROTO_HAMLYN,
            protocol_version: 1,
            max_msg_size: LONGEST,
            msg_prefix_size: 0,
            max_order_raw_size: LONGEST,
            max_order_war_size: 0,
            max_order_waw_size: LONGEST,
            mem_tag_format: u64::MAX,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            auth_key_size: 0,
            auth_key: ptr::null_mut(),
        }),
        domain_attr: allocate(DomainAttr {
            domain: ptr::null_mut(),
            name: text(card.model()),
            threading: FI_THREAD_SAFE,
            control_progress: FI_PROGRESS_AUTO,
            data_progress: FI_PROGRESS_MANUAL,
            resource_mgmt: FI_RM_ENABLED,
            av_type: if asked.av_type == 0 { FI_AV_TABLE } else { asked.av_type },
            mr_mode,
            mr_key_size: size_of::<u64>(),
            cq_data_size: size_of::<u64>(),
            cq_cnt: MOST,
            ep_cnt: MOST,
            tx_ctx_cnt: MOST,
            rx_ctx_cnt: MOST,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            max_ep_stx_ctx: 0,
            max_ep_srx_ctx: 0,
            cntr_cnt: MOST,
            mr_iov_limit: 16,
            caps: LOCAL,
            mode: 0,
            auth_key: ptr::null_mut(),
            auth_key_size: 0,
            max_err_data: 0,
            mr_cnt: MOST,
            tclass: 0,
            max_ep_auth_key: 0,
            max_group_id: 0,
        }),
        fabric_attr: allocate(FabricAttr {
            fabric: ptr::null_mut(),
            name: text("uln"),
            // libfabric adds the provider's name.
            prov_name: ptr::null_mut(),
            prov_version: 0,
            api_version: version,
        }),
        nic: ptr::null_mut(),
    });
    if info.is_null() {
        return -libc::ENOMEM;
    }
    // SAFETY: libfabric passes the place for the result; what was allocated is valid.
    unsafe {
        let parts = [
            (*info).tx_attr.cast::<c_void>(),
            (*info).rx_attr.cast(),
            (*info).ep_attr.cast(),
            (*info).domain_attr.cast(),
            (*info).fabric_attr.cast(),
        ];
        // A list that lacks a part would make programs crash. So little memory is not worth more.
        if parts.iter().any(|part| part.is_null()) {
            return -libc::ENOMEM;
        }
        *found = info;
    }
    0
}

/// What a program asks for. Zero stands for anything.
#[derive(Default)]
struct Asked {
    caps: u64,
    tx_flags: u64,
    rx_flags: u64,
    kind: c_int,
    protocol: u32,
    longest: usize,
    order: u64,
    inject: usize,
    address_format: u32,
    av_type: c_int,
    mr_mode: c_int,
    progress: c_int,
    data_size: usize,
    domain_caps: u64,
    domain: Option<String>,
    fabric: Option<String>,
    source: Option<Address>,
    destination: Option<Address>,
}

impl Asked {
    fn new(hints: Option<&Info>) -> Self {
        let Some(hints) = hints else { return Self { mr_mode: MR_MODES, ..Self::default() } };
        let mut asked = Self {
            caps: hints.caps,
            address_format: hints.addr_format,
            mr_mode: MR_MODES,
            source: address_of(hints.src_addr, hints.src_addrlen),
            destination: address_of(hints.dest_addr, hints.dest_addrlen),
            ..Self::default()
        };
        // SAFETY: the parts of a program's hints are valid or null.
        unsafe {
            if let Some(tx) = hints.tx_attr.as_ref() {
                (asked.tx_flags, asked.order, asked.inject) = (tx.op_flags, tx.msg_order, tx.inject_size);
                asked.caps |= if hints.caps == 0 { tx.caps } else { 0 };
            }
            if let Some(rx) = hints.rx_attr.as_ref() {
                asked.rx_flags = rx.op_flags;
                asked.order |= rx.msg_order;
                asked.caps |= if hints.caps == 0 { rx.caps } else { 0 };
            }
            if let Some(ep) = hints.ep_attr.as_ref() {
                (asked.kind, asked.protocol, asked.longest) = (ep.r#type, ep.protocol, ep.max_msg_size);
            }
            if let Some(domain) = hints.domain_attr.as_ref() {
                (asked.av_type, asked.mr_mode) = (domain.av_type, domain.mr_mode);
                (asked.progress, asked.data_size) = (domain.data_progress, domain.cq_data_size);
                asked.domain_caps = domain.caps;
                asked.domain = given(domain.name).map(str::to_owned);
            }
            if let Some(fabric) = hints.fabric_attr.as_ref() {
                asked.fabric = given(fabric.name).map(str::to_owned);
            }
        }
        asked
    }

    fn fits(&self, model: &str) -> bool {
        self.caps & !CAPS == 0
            && self.domain_caps & !LOCAL == 0
            && [0, FI_EP_RDM].contains(&self.kind)
            && [0, FI_PROTO_HAMLYN].contains(&self.protocol)
            && [0, FI_ADDR_HAMLYN].contains(&self.address_format)
            && self.order & !ORDER == 0
            && self.inject <= LONGEST_INJECT
            && self.longest <= LONGEST
            && self.progress != FI_PROGRESS_AUTO
            && [0, FI_AV_MAP, FI_AV_TABLE].contains(&self.av_type)
            && self.data_size <= size_of::<u64>()
            && self.domain.as_deref().is_none_or(|name| name == model)
            && self.fabric.as_deref().is_none_or(|name| name == "uln")
    }
}

/// The address that an endpoint is to have, if the program chose one.
pub(crate) fn source_of(info: &Info) -> Option<Address> {
    address_of(info.src_addr, info.src_addrlen).filter(|address| address.name().is_some())
}

fn address_of(address: *const c_void, length: usize) -> Option<Address> {
    if address.is_null() || length != ADDRESS {
        return None;
    }
    // SAFETY: a program's address has the length that it states.
    Some(Address(unsafe { *address.cast() }))
}
