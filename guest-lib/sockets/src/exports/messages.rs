//! Messages with several buffers.

use libc::{c_int, c_uint, mmsghdr, msghdr, ssize_t, timespec};

use super::bytes::{is_ours, receive, transmit};
use super::next;

/// recvmsg(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract. TCP tells no address here.
    unsafe {
        if let Some(received) = receive(fd, (*message).msg_iov, (*message).msg_iovlen, flags) {
            ((*message).msg_flags, (*message).msg_namelen, (*message).msg_controllen) = (0, 0, 0);
            return received;
        }
    }
    next!(recvmsg(fd, message, flags): c_int, *mut msghdr, c_int => ssize_t)
}

/// sendmsg(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(sent) = unsafe { transmit(fd, (*message).msg_iov, (*message).msg_iovlen, flags) } {
        return sent;
    }
    next!(sendmsg(fd, message, flags): c_int, *const msghdr, c_int => ssize_t)
}

/// recvmmsg(2): of a connection, one message.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    if count == 0 || !is_ours(fd, false) {
        return next!(recvmmsg(fd, messages, count, flags, timeout):
            c_int, *mut mmsghdr, c_uint, c_int, *mut timespec => c_int);
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
pub(super) unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    if !is_ours(fd, false) {
        return next!(sendmmsg(fd, messages, count, flags): c_int, *mut mmsghdr, c_uint, c_int => c_int);
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
