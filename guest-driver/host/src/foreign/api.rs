//! The declarations of `shim/host.h`, in the same order.

use std::ffi::{c_char, c_int, c_void};

use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_abi::uapi::{UlnConnect, UlnConnectionState, UlnExpressQuery, UlnListen, UlnPrivate};

use crate::Sizes;
use crate::express::EndState;

/// `struct host` and other types that only C looks into.
#[repr(C)]
pub(super) struct RawHost([u8; 0]);
#[repr(C)]
pub(super) struct RawListener([u8; 0]);
#[repr(C)]
pub(super) struct RawConnection([u8; 0]);
#[repr(C)]
pub(super) struct RawEnd([u8; 0]);

/// `struct host_call`.
#[repr(C)]
pub(super) struct Call {
    pub(super) ports: *mut c_void,
    pub(super) now: u64,
    pub(super) random: unsafe extern "C" fn(*mut c_void) -> u32,
    pub(super) allocates: unsafe extern "C" fn(*mut c_void) -> bool,
    pub(super) link: unsafe extern "C" fn(*mut c_void, *mut u32) -> bool,
    pub(super) post: unsafe extern "C" fn(*mut c_void, u32, u32, *const UlnWire, *const u8, u32) -> bool,
    pub(super) take: unsafe extern "C" fn(*mut c_void, *mut u32, *mut u32) -> bool,
    pub(super) more: unsafe extern "C" fn(*mut c_void) -> bool,
    pub(super) read: unsafe extern "C" fn(*mut c_void, u32, u32, *mut UlnWire, *mut u8),
    pub(super) reopen: unsafe extern "C" fn(*mut c_void, u32, u32),
    pub(super) message: unsafe extern "C" fn(*mut c_void, u32, *const UlnWire, *const u8),
    pub(super) lost: unsafe extern "C" fn(*mut c_void, u32),
    pub(super) depends: unsafe extern "C" fn(*mut c_void, u32) -> bool,
    pub(super) woken: unsafe extern "C" fn(*mut c_void, u32),
    pub(super) withdraw: unsafe extern "C" fn(*mut c_void, u32),
}

// In the order of host.h.
unsafe extern "C" {
    #[link_name = "hamlyn_driver_host_create"]
    pub(super) fn host_create(call: *const Call, number: c_int, timeout: u32) -> *mut RawHost;
    #[link_name = "hamlyn_driver_host_destroy"]
    pub(super) fn host_destroy(host: *mut RawHost);
    #[link_name = "hamlyn_driver_host_open"]
    pub(super) fn host_open(host: *mut RawHost, call: *const Call);
    #[link_name = "hamlyn_driver_host_stop"]
    pub(super) fn host_stop(host: *mut RawHost, call: *const Call);
    #[link_name = "hamlyn_driver_host_lost"]
    pub(super) fn host_lost(host: *mut RawHost, call: *const Call, reason: u32);
    #[link_name = "hamlyn_driver_host_arrived"]
    pub(super) fn host_arrived(host: *mut RawHost, call: *const Call);
    #[link_name = "hamlyn_driver_host_lapsed"]
    pub(super) fn host_lapsed(host: *mut RawHost, call: *const Call);
    #[link_name = "hamlyn_driver_host_work"]
    pub(super) fn host_work(host: *mut RawHost, call: *const Call) -> bool;
    #[link_name = "hamlyn_driver_host_due"]
    pub(super) fn host_due(host: *const RawHost, due: *mut u64) -> bool;
    #[link_name = "hamlyn_driver_host_say"]
    pub(super) fn host_say(
        host: *mut RawHost,
        call: *const Call,
        to: u32,
        wire: *const UlnWire,
        data: *const u8,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_set_hosts"]
    pub(super) fn host_set_hosts(host: *mut RawHost, call: *const Call, hosts: u32);
    #[link_name = "hamlyn_driver_host_watch"]
    pub(super) fn host_watch(host: *mut RawHost, call: *const Call, peer: u32);
    #[link_name = "hamlyn_driver_host_listen"]
    pub(super) fn host_listen(
        host: *mut RawHost,
        call: *const Call,
        listen: *const UlnListen,
        file: u32,
        opened: *mut *mut RawListener,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_claim"]
    pub(super) fn host_claim(
        host: *mut RawHost,
        call: *const Call,
        listener: *mut RawListener,
        file: u32,
        claimed: *mut *mut RawConnection,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_unlisten"]
    pub(super) fn host_unlisten(host: *mut RawHost, call: *const Call, listener: *mut RawListener);
    #[link_name = "hamlyn_driver_host_waiting"]
    pub(super) fn host_waiting(listener: *const RawListener) -> c_int;
    #[link_name = "hamlyn_driver_host_request"]
    pub(super) fn host_request(
        host: *mut RawHost,
        call: *const Call,
        connect: *const UlnConnect,
        question: bool,
        file: u32,
        made: *mut *mut RawConnection,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_answer"]
    pub(super) fn host_answer(
        host: *mut RawHost,
        call: *const Call,
        connection: *mut RawConnection,
        kind: u32,
        private: *const UlnPrivate,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_close"]
    pub(super) fn host_close(
        host: *mut RawHost,
        call: *const Call,
        connection: *mut RawConnection,
        reason: u32,
        private: *const UlnPrivate,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_abandon"]
    pub(super) fn host_abandon(host: *mut RawHost, call: *const Call, connection: *mut RawConnection);
    #[link_name = "hamlyn_driver_host_release"]
    pub(super) fn host_release(host: *mut RawHost, call: *const Call, connection: *mut RawConnection);
    #[link_name = "hamlyn_driver_host_describe"]
    pub(super) fn host_describe(connection: *const RawConnection, state: *mut UlnConnectionState);
    #[link_name = "hamlyn_driver_host_express_begin"]
    pub(super) fn host_express_begin(host: *mut RawHost, call: *const Call, own: u32) -> c_int;
    #[link_name = "hamlyn_driver_host_express_part"]
    pub(super) fn host_express_part(
        host: *mut RawHost,
        call: *const Call,
        peer: u32,
        memory: u64,
        pages: u32,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_express_stop"]
    pub(super) fn host_express_stop(host: *mut RawHost, call: *const Call);
    #[link_name = "hamlyn_driver_host_express_create"]
    pub(super) fn host_express_create(
        host: *mut RawHost,
        call: *const Call,
        peer: u32,
        pages: u32,
        again: bool,
        file: u32,
        made: *mut *mut RawEnd,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_express_map"]
    pub(super) fn host_express_map(
        host: *mut RawHost,
        call: *const Call,
        peer: u32,
        area: u32,
        key: u64,
        file: u32,
        made: *mut *mut RawEnd,
    ) -> c_int;
    #[link_name = "hamlyn_driver_host_express_close"]
    pub(super) fn host_express_close(host: *mut RawHost, call: *const Call, end: *mut RawEnd);
    #[link_name = "hamlyn_driver_host_express_user"]
    pub(super) fn host_express_user(host: *mut RawHost, user: u32, messages: u32);
    #[link_name = "hamlyn_driver_host_express_spare"]
    pub(super) fn host_express_spare(host: *mut RawHost, pages: u32);
    #[link_name = "hamlyn_driver_host_express_describe"]
    pub(super) fn host_express_describe(host: *mut RawHost, call: *const Call, query: *mut UlnExpressQuery);
    #[link_name = "hamlyn_driver_host_express_look"]
    pub(super) fn host_express_look(end: *const RawEnd, state: *mut EndState);
    #[link_name = "hamlyn_driver_host_sizes"]
    pub(super) fn host_sizes(host: *const RawHost, sizes: *mut Sizes);
    #[link_name = "hamlyn_driver_host_renewed"]
    pub(super) fn host_renewed(host: *const RawHost, peer: u32) -> u64;
    #[link_name = "hamlyn_driver_host_complaint"]
    pub(super) fn host_complaint(host: *const RawHost) -> *const c_char;
}
