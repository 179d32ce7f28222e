//! Making, copying and closing descriptors.

use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::ptr;

use libc::{FILE, c_char, c_int, c_uint, c_ulong, c_void, sockaddr, socklen_t};

use super::bytes::is_ours;
use super::{next, number, result, uncancelled};
use crate::foreign::{self, Answer, call};
use crate::socket::Socket;
use crate::table::{self, Object, Open};
use crate::{node, start};

/// A connection between two machines of the fabric is ours from now on.
fn watch(fd: RawFd, socket: Option<Socket>) {
    let Some(socket) = socket else { return };
    let open = Open::new(Object::Socket(socket.into()));
    release(table::put(fd, Some(open.clone())));
    if let Some(socket) = open.socket() {
        table::epolls().iter().for_each(|epoll| epoll.adopt(fd, socket));
    }
}

/// The program has closed the last descriptor of an object.
fn release(open: Option<Open>) {
    open.iter().filter_map(Open::socket).for_each(|socket| socket.close());
}

/// The program is closing a descriptor, or is putting another in its place.
fn leave(fd: RawFd) {
    if start::is_own_process() {
        table::get(fd).iter().filter_map(Open::socket).for_each(|socket| socket.sets.leave(fd));
        release(table::put(fd, None));
    }
}

/// A copy of a descriptor stands for the same.
fn copied(from: RawFd, to: Answer) -> Answer {
    if let (Ok(to), true, true) = (to, table::is_used(from), start::is_own_process()) {
        uncancelled(|| {
            if let Some(open) = table::get(from).filter(|open| open.socket().is_some()) {
                release(table::put(to as RawFd, Some(open)));
            }
        });
    }
    to
}

fn begun(fd: RawFd, peer: Option<SocketAddrV4>) {
    if table::get(fd).is_some() || !foreign::is_tcp(fd) {
        return;
    }
    let (Some(own), Some(peer)) = (foreign::address(fd, false), peer) else { return };
    if !node::is_own(*own.ip()) || node::is_own(*peer.ip()) {
        return;
    }
    watch(fd, foreign::own(fd).and_then(|copy| Socket::connecting(copy, &node::name_of(own, peer))));
}

/// connect(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    let done = next!(connect(fd, address, length): c_int, *const sockaddr, socklen_t => c_int);
    let error = foreign::errno();
    if start::is_own_process() && (done == 0 || [libc::EINPROGRESS, libc::EINTR].contains(&error)) {
        // SAFETY: by the caller's contract.
        uncancelled(|| begun(fd, unsafe { foreign::address_at(address, length) }));
    }
    foreign::set_errno(error);
    done
}

fn accepted(fd: c_int) {
    let ends = foreign::address(fd, false).zip(foreign::address(fd, true));
    if let Some((own, peer)) = ends.filter(|_| start::is_own_process() && foreign::is_tcp(fd)) {
        if node::is_own(*own.ip()) && !node::is_own(*peer.ip()) {
            let socket = |copy| Socket::accepted(copy, node::name_of(peer, own), peer);
            watch(fd, foreign::own(fd).map(socket));
        }
    }
}

/// accept(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe { accept4(fd, address, length, 0) }
}

/// accept4(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let made = next!(accept4(fd, address, length, flags):
        c_int, *mut sockaddr, *mut socklen_t, c_int => c_int);
    if made >= 0 {
        uncancelled(|| accepted(made));
    }
    made
}

/// shutdown(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    if !is_ours(fd, false) {
        return number(foreign::shutdown(fd, how));
    }
    let (receiving, sending) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return number(Err(libc::EINVAL)),
    };
    let by_tcp = uncancelled(|| {
        let open = table::socket(fd);
        open.as_ref().and_then(Open::socket).is_some_and(|socket| socket.shutdown(receiving, sending))
    });
    // A channel's receiving end is woken by this, too.
    let how = match (receiving, by_tcp) {
        (true, true) => libc::SHUT_RDWR,
        (true, false) => libc::SHUT_RD,
        (false, true) => libc::SHUT_WR,
        (false, false) => return 0,
    };
    number(foreign::shutdown(fd, how))
}

/// close(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if table::is_used(fd) {
        uncancelled(|| leave(fd));
    }
    next!(close(fd): c_int => c_int)
}

/// close_range(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags as c_uint & libc::CLOSE_RANGE_CLOEXEC == 0 {
        uncancelled(|| {
            let [first, last] = [first, last].map(|fd| fd.min(RawFd::MAX as c_uint) as RawFd);
            table::between(first, last).into_iter().for_each(leave);
        });
    }
    // SAFETY: no pointer is passed.
    number(unsafe { call(libc::SYS_close_range, [first as usize, last as usize, flags as usize, 0, 0, 0]) })
}

/// closefrom(3)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: no pointer is passed.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

/// dup(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup(fd: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    number(copied(fd, unsafe { call(libc::SYS_dup, [fd as usize, 0, 0, 0, 0, 0]) }))
}

/// dup2(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    let done = unsafe { call(libc::SYS_dup2, [fd as usize, to as usize, 0, 0, 0, 0]) };
    number(if fd == to { done } else { replaced(fd, done) })
}

/// dup3(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    let done = unsafe { call(libc::SYS_dup3, [fd as usize, to as usize, flags as usize, 0, 0, 0]) };
    number(replaced(fd, done))
}

/// What had this number before was closed.
fn replaced(from: RawFd, to: Answer) -> Answer {
    if let Ok(to) = to {
        uncancelled(|| leave(to as RawFd));
    }
    copied(from, to)
}

/// The program has set or cleared `O_NONBLOCK`.
fn flags_change(fd: RawFd) {
    if table::is_used(fd) {
        uncancelled(|| {
            let open = table::socket(fd);
            open.as_ref().and_then(Open::socket).into_iter().for_each(|socket| socket.flags_change());
        });
    }
}

/// fcntl(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fcntl(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    let done = next!(fcntl64(fd, command, argument): c_int, c_int, c_ulong => c_int);
    if command == libc::F_SETFL {
        flags_change(fd);
    }
    if done >= 0 && [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&command) {
        let _ = copied(fd, Ok(done as usize));
    }
    done
}

/// fcntl(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    // SAFETY: by the caller's contract.
    unsafe { fcntl(fd, command, argument) }
}

/// ioctl(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    if request == libc::FIONREAD {
        let bytes = uncancelled(|| {
            table::socket(fd).as_ref().and_then(Open::socket).and_then(|socket| socket.available())
        });
        if let Some(bytes) = bytes {
            // SAFETY: by the caller's contract.
            unsafe { *argument.cast::<c_int>() = bytes.try_into().unwrap_or(c_int::MAX) };
            return 0;
        }
    }
    let done = next!(ioctl(fd, request, argument): c_int, c_ulong, *mut c_void => c_int);
    if request == libc::FIONBIO {
        flags_change(fd);
    }
    done
}

/// setsockopt(2): what only TCP has keeps a connection there.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let only_tcp = [
        (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE),
        (libc::IPPROTO_TCP, libc::TCP_ULP),
        (libc::IPPROTO_TCP, libc::TCP_REPAIR),
    ];
    if only_tcp.contains(&(level, name)) && is_ours(fd, true) {
        return number(Err(libc::EOPNOTSUPP));
    }
    next!(setsockopt(fd, level, name, value, length):
        c_int, c_int, c_int, *const c_void, socklen_t => c_int)
}

/// fdopen(3): the C library reads and writes such a file past us.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if is_ours(fd, true) {
        result(Err(libc::EOPNOTSUPP));
        return ptr::null_mut();
    }
    next!(fdopen(fd, mode): c_int, *const c_char => *mut FILE)
}
