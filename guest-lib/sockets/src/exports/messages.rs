//! Messages with several buffers.

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

use super::bytes::{receive_parts, send_parts};
use super::{number, result};
use crate::foreign::call;
use crate::table;

/// recvmsg(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { receive_parts(fd, (*message).msg_iov, (*message).msg_iovlen, flags) };
    let Some(received) = ours else {
        // SAFETY: the same.
        return result(unsafe {
            call(libc::SYS_recvmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0])
        });
    };
    // SAFETY: the same. TCP tells no address here.
    unsafe {
        ((*message).msg_flags, (*message).msg_namelen, (*message).msg_controllen) = (0, 0, 0);
    }
    result(received)
}

/// sendmsg(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { send_parts(fd, (*message).msg_iov, (*message).msg_iovlen, flags) };
    // SAFETY: the same.
    result(ours.unwrap_or_else(|| unsafe {
        call(libc::SYS_sendmsg, [fd as usize, message as usize, flags as usize, 0, 0, 0])
    }))
}

/// recvmmsg(2): of a connection, one message.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if table::socket(fd).is_none() || count == 0 {
        let arguments = [fd as usize, messages as usize, count as usize, flags as usize, timeout as usize, 0];
        // SAFETY: by the caller's contract.
        return number(unsafe { call(libc::SYS_recvmmsg, arguments) });
    }
    // SAFETY: there is at least one message.
    unsafe {
        let received = recvmsg(fd, &mut (*messages).msg_hdr, flags);
        if received < 0 {
            return -1;
        }
        (*messages).msg_len = received as c_uint;
    }
    1
}

/// sendmmsg(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int {
    if table::socket(fd).is_none() {
        let arguments = [fd as usize, messages as usize, count as usize, flags as usize, 0, 0];
        // SAFETY: by the caller's contract.
        return number(unsafe { call(libc::SYS_sendmmsg, arguments) });
    }
    for at in 0..count as usize {
        // SAFETY: there are this many messages.
        unsafe {
            let message = &mut *messages.add(at);
            let sent = sendmsg(fd, &message.msg_hdr, flags);
            if sent < 0 {
                return if at > 0 { at as c_int } else { -1 };
            }
            message.msg_len = sent as c_uint;
        }
    }
    count as c_int
}
