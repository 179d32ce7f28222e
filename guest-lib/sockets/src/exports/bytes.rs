//! Receiving and sending bytes.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::ptr;

use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};

use super::result;
use crate::foreign::{Answer, call};
use crate::socket::Manner;
use crate::table::{self, Open};

/// Bytes of a file that are sent at once.
const PIECE: usize = 64 << 10;

/// Flags of calls that only TCP has.
const RECEIVED_BY_TCP: c_int = libc::MSG_OOB | libc::MSG_ERRQUEUE;

fn manner(flags: c_int) -> Manner {
    Manner {
        peek: flags & libc::MSG_PEEK != 0,
        all: flags & libc::MSG_WAITALL != 0,
        at_once: flags & libc::MSG_DONTWAIT != 0,
    }
}

/// Returns the connection, if this call is for it. What only TCP can do keeps it there.
fn connection(fd: RawFd, flags: c_int, by_tcp: c_int) -> Answer<Option<Open>> {
    let Some(open) = table::socket(fd) else { return Ok(None) };
    if flags & by_tcp == 0 {
        return Ok(Some(open));
    }
    let stays = open.socket().is_some_and(|socket| socket.keep_tcp());
    if stays { Ok(None) } else { Err(libc::EOPNOTSUPP) }
}

/// Receives into the program's buffers. `None`: the kernel does.
///
/// # Safety
/// `vectors` points to `count` vectors of valid buffers.
pub(super) unsafe fn receive_parts(fd: RawFd, vectors: *const iovec, count: usize, flags: c_int) -> Option<Answer> {
    let open = match connection(fd, flags, RECEIVED_BY_TCP) {
        Ok(open) => open?,
        Err(error) => return Some(Err(error)),
    };
    let mut parts = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: by this function's contract. `IoSliceMut` is laid out like `iovec`.
        let part = unsafe { &*vectors.add(at) };
        if part.iov_len > 0 {
            // SAFETY: the program has lent this buffer for the call.
            let bytes = unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast(), part.iov_len) };
            parts.push(IoSliceMut::new(bytes));
        }
    }
    Some(open.socket()?.read(fd, &mut parts, manner(flags)))
}

/// Sends the program's buffers. `None`: the kernel does.
///
/// # Safety
/// `vectors` points to `count` vectors of valid buffers.
pub(super) unsafe fn send_parts(fd: RawFd, vectors: *const iovec, count: usize, flags: c_int) -> Option<Answer> {
    let open = match connection(fd, flags, libc::MSG_OOB | libc::MSG_ZEROCOPY) {
        Ok(open) => open?,
        Err(error) => return Some(Err(error)),
    };
    let mut parts = Vec::with_capacity(count);
    for at in 0..count {
        // SAFETY: by this function's contract.
        let part = unsafe { &*vectors.add(at) };
        if part.iov_len > 0 {
            // SAFETY: the program has lent this buffer for the call.
            let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast(), part.iov_len) };
            parts.push(IoSlice::new(bytes));
        }
    }
    Some(signal_broken(open.socket()?.write(fd, &mut parts, manner(flags)), flags))
}

/// Raises the signal of a connection that is gone, as the kernel does.
fn signal_broken(answer: Answer, flags: c_int) -> Answer {
    if answer == Err(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::raise(libc::SIGPIPE) };
    }
    answer
}

fn one(buffer: *const c_void, length: size_t) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: length }
}

/// read(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { receive_parts(fd, &one(buffer, length), 1, 0) };
    // SAFETY: the same.
    result(ours.unwrap_or_else(|| unsafe {
        call(libc::SYS_read, [fd as usize, buffer as usize, length, 0, 0, 0])
    }))
}

/// read(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, size: size_t) -> ssize_t {
    check(length, size);
    // SAFETY: by the caller's contract.
    unsafe { read(fd, buffer, length) }
}

/// What the C library does to a program that is about to overrun its buffer.
fn check(length: size_t, size: size_t) {
    if length > size {
        // SAFETY: no pointer is passed.
        unsafe { libc::abort() };
    }
}

/// write(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { send_parts(fd, &one(buffer, length), 1, 0) };
    // SAFETY: the same.
    result(ours.unwrap_or_else(|| unsafe {
        call(libc::SYS_write, [fd as usize, buffer as usize, length, 0, 0, 0])
    }))
}

/// readv(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { receive_parts(fd, vectors, count.max(0) as usize, 0) };
    // SAFETY: the same.
    result(ours.unwrap_or_else(|| unsafe {
        call(libc::SYS_readv, [fd as usize, vectors as usize, count as usize, 0, 0, 0])
    }))
}

/// writev(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { send_parts(fd, vectors, count.max(0) as usize, 0) };
    // SAFETY: the same.
    result(ours.unwrap_or_else(|| unsafe {
        call(libc::SYS_writev, [fd as usize, vectors as usize, count as usize, 0, 0, 0])
    }))
}

/// recv(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn recv(fd: c_int, buffer: *mut c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { recvfrom(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// recv(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __recv_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    size: size_t,
    flags: c_int,
) -> ssize_t {
    check(length, size);
    // SAFETY: by the caller's contract.
    unsafe { recv(fd, buffer, length, flags) }
}

/// recvfrom(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    match unsafe { receive_parts(fd, &one(buffer, length), 1, flags) } {
        Some(received) => {
            if !address.is_null() && !address_length.is_null() {
                // SAFETY: as above. TCP tells no address here.
                unsafe { *address_length = 0 };
            }
            result(received)
        }
        // SAFETY: as above.
        None => result(unsafe {
            let more = [address as usize, address_length as usize];
            call(
                libc::SYS_recvfrom,
                [fd as usize, buffer as usize, length, flags as usize, more[0], more[1]],
            )
        }),
    }
}

/// recvfrom(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn __recvfrom_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    size: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    check(length, size);
    // SAFETY: by the caller's contract.
    unsafe { recvfrom(fd, buffer, length, flags, address, address_length) }
}

/// send(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn send(fd: c_int, buffer: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { sendto(fd, buffer, length, flags, ptr::null(), 0) }
}

/// sendto(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    let ours = unsafe { send_parts(fd, &one(buffer, length), 1, flags) };
    // SAFETY: as above.
    result(ours.unwrap_or_else(|| unsafe {
        let more = [address as usize, address_length as usize];
        call(libc::SYS_sendto, [fd as usize, buffer as usize, length, flags as usize, more[0], more[1]])
    }))
}

/// sendfile(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    let Some(open) = table::socket(to) else {
        // SAFETY: by the caller's contract.
        return result(unsafe {
            call(libc::SYS_sendfile, [to as usize, from as usize, offset as usize, count, 0, 0])
        });
    };
    let Some(socket) = open.socket() else { return result(Err(libc::EBADF)) };
    // SAFETY: the program's offset is valid, if there is one.
    let begin = if offset.is_null() {
        // SAFETY: no pointer is passed.
        unsafe { call(libc::SYS_lseek, [from as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) }
    } else {
        // SAFETY: as above.
        usize::try_from(unsafe { *offset }).map_err(|_| libc::EINVAL)
    };
    let sent = begin.and_then(|begin| send_file(to, socket, from, begin, count));
    if let (Ok(begin), Ok(sent)) = (begin, sent) {
        // SAFETY: as above.
        unsafe {
            if offset.is_null() {
                let _ = call(libc::SYS_lseek, [from as usize, begin + sent, libc::SEEK_SET as usize, 0, 0, 0]);
            } else {
                *offset = (begin + sent) as off_t;
            }
        }
    }
    result(signal_broken(sent, 0))
}

/// sendfile(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { sendfile(to, from, offset, count) }
}

/// Sends bytes of a file. As with the kernel, a descriptor that does not wait may send fewer.
fn send_file(to: RawFd, socket: &crate::socket::Socket, from: RawFd, begin: usize, count: usize) -> Answer {
    let mut piece = vec![0_u8; PIECE.min(count)];
    let mut sent = 0;
    while sent < count {
        let wanted = piece.len().min(count - sent);
        let place = [from as usize, piece.as_mut_ptr() as usize, wanted, begin + sent, 0, 0];
        // SAFETY: the buffer has this many bytes.
        let read = unsafe { call(libc::SYS_pread64, place) };
        let gone = match read {
            Ok(0) => break,
            Ok(read) => socket.write(to, &mut [IoSlice::new(&piece[..read])], Manner::default()).map(|gone| (read, gone)),
            Err(error) => Err(error),
        };
        match gone {
            Ok((read, gone)) => {
                sent += gone;
                if gone < read {
                    break;
                }
            }
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// splice(2): a connection stays on TCP for it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    for fd in [from, to] {
        // Programs copy the bytes if this fails.
        if table::socket(fd).is_some_and(|open| open.socket().is_some_and(|socket| !socket.keep_tcp())) {
            return result(Err(libc::EINVAL));
        }
    }
    // SAFETY: by the caller's contract.
    result(unsafe {
        call(
            libc::SYS_splice,
            [from as usize, from_offset as usize, to as usize, to_offset as usize, length, flags as usize],
        )
    })
}
