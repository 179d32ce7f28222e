//! Receiving and sending bytes.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::RawFd;
use std::ptr;

use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};
use smallvec::SmallVec;

use super::{next, result, steps, uncancelled};
use crate::foreign::{Answer, call};
use crate::socket::{Call, Manner, Socket, Step};
use crate::table;

/// Bytes of a file that are sent at once.
const PIECE: usize = 64 << 10;

/// Flags of calls that only TCP has.
const RECEIVED_BY_TCP: c_int = libc::MSG_OOB | libc::MSG_ERRQUEUE;
const SENT_BY_TCP: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY;

fn manner(flags: c_int) -> Manner {
    Manner {
        peek: flags & libc::MSG_PEEK != 0,
        all: flags & libc::MSG_WAITALL != 0,
        at_once: flags & libc::MSG_DONTWAIT != 0,
    }
}

/// Whether a connection is ours that may go over a channel, for a call with these flags: what only
/// TCP can do keeps it there.
pub(super) fn is_ours(fd: RawFd, only_tcp: bool) -> bool {
    table::is_used(fd)
        && uncancelled(|| {
            let open = table::socket(fd);
            let socket = open.as_ref().and_then(table::Open::socket);
            socket.is_some_and(|socket| !only_tcp || !socket.keep_tcp())
        })
}

/// Receives into the program's buffers. `None`: the C library does.
///
/// # Safety
/// `vectors` points to `count` vectors of valid buffers.
#[inline]
pub(super) unsafe fn receive(
    fd: RawFd,
    vectors: *const iovec,
    count: usize,
    flags: c_int,
) -> Option<ssize_t> {
    if flags & RECEIVED_BY_TCP != 0 {
        return is_ours(fd, true).then(|| result(Err(libc::EOPNOTSUPP)));
    }
    steps(fd, |socket, call| {
        let (mut parts, mut skip): (SmallVec<[IoSliceMut<'_>; 2]>, usize) = (SmallVec::new(), call.done);
        for at in 0..count {
            // SAFETY: by this function's contract.
            let part = unsafe { &*vectors.add(at) };
            if part.iov_len > skip {
                // SAFETY: the program has lent this buffer for the call.
                let bytes =
                    unsafe { std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>(), part.iov_len) };
                parts.push(IoSliceMut::new(&mut bytes[skip..]));
            }
            skip = skip.saturating_sub(part.iov_len);
        }
        socket.read(fd, &mut parts, manner(flags), call)
    })
}

/// Sends the program's buffers. `None`: the C library does.
///
/// # Safety
/// As [`receive`].
#[inline]
pub(super) unsafe fn transmit(
    fd: RawFd,
    vectors: *const iovec,
    count: usize,
    flags: c_int,
) -> Option<ssize_t> {
    if flags & SENT_BY_TCP != 0 {
        return is_ours(fd, true).then(|| result(Err(libc::EOPNOTSUPP)));
    }
    let sent = steps(fd, |socket, call| {
        let (mut parts, mut skip): (SmallVec<[IoSlice<'_>; 2]>, usize) = (SmallVec::new(), call.done);
        for at in 0..count {
            // SAFETY: by this function's contract.
            let part = unsafe { &*vectors.add(at) };
            if part.iov_len > skip {
                // SAFETY: the program has lent this buffer for the call.
                let bytes = unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), part.iov_len) };
                parts.push(IoSlice::new(&bytes[skip..]));
            }
            skip = skip.saturating_sub(part.iov_len);
        }
        socket.write(fd, &mut parts, manner(flags), call)
    });
    sent.map(|sent| signal_broken(sent, flags))
}

/// Raises the signal of a connection that is gone, as the kernel does.
fn signal_broken(sent: ssize_t, flags: c_int) -> ssize_t {
    if sent < 0 && crate::foreign::errno() == libc::EPIPE && flags & libc::MSG_NOSIGNAL == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::raise(libc::SIGPIPE) };
        crate::foreign::set_errno(libc::EPIPE);
    }
    sent
}

fn one(buffer: *const c_void, length: size_t) -> iovec {
    iovec { iov_base: buffer.cast_mut(), iov_len: length }
}

/// What the C library does to a program that is about to overrun its buffer.
fn check(length: size_t, size: size_t) {
    if length > size {
        eprintln!("hamlyn-run: {length} bytes are to be received into a buffer of {size}");
        std::process::abort();
    }
}

/// read(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(done) = unsafe { receive(fd, &one(buffer, length), 1, 0) } {
        return done;
    }
    next!(read(fd, buffer, length): c_int, *mut c_void, size_t => ssize_t)
}

/// read(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    size: size_t,
) -> ssize_t {
    check(length, size);
    // SAFETY: by the caller's contract.
    unsafe { read(fd, buffer, length) }
}

/// write(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(done) = unsafe { transmit(fd, &one(buffer, length), 1, 0) } {
        return done;
    }
    next!(write(fd, buffer, length): c_int, *const c_void, size_t => ssize_t)
}

/// readv(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn readv(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(done) = unsafe { receive(fd, vectors, count.max(0) as usize, 0) } {
        return done;
    }
    next!(readv(fd, vectors, count): c_int, *const iovec, c_int => ssize_t)
}

/// writev(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn writev(fd: c_int, vectors: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(done) = unsafe { transmit(fd, vectors, count.max(0) as usize, 0) } {
        return done;
    }
    next!(writev(fd, vectors, count): c_int, *const iovec, c_int => ssize_t)
}

/// recv(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { recvfrom(fd, buffer, length, flags, ptr::null_mut(), ptr::null_mut()) }
}

/// recv(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __recv_chk(
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
pub(super) unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(received) = unsafe { receive(fd, &one(buffer, length), 1, flags) } {
        if received >= 0 && !address.is_null() && !address_length.is_null() {
            // SAFETY: as above. TCP tells no address here.
            unsafe { *address_length = 0 };
        }
        return received;
    }
    next!(recvfrom(fd, buffer, length, flags, address, address_length):
        c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t => ssize_t)
}

/// recvfrom(2), with the size of the buffer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __recvfrom_chk(
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
pub(super) unsafe extern "C-unwind" fn send(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { sendto(fd, buffer, length, flags, ptr::null(), 0) }
}

/// sendto(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    if let Some(sent) = unsafe { transmit(fd, &one(buffer, length), 1, flags) } {
        return sent;
    }
    next!(sendto(fd, buffer, length, flags, address, address_length):
        c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t => ssize_t)
}

/// sendfile(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendfile(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    if !is_ours(to, false) {
        return next!(sendfile(to, from, offset, count): c_int, c_int, *mut off_t, size_t => ssize_t);
    }
    // SAFETY: the program's offset is valid, if there is one.
    let begin = if offset.is_null() {
        // SAFETY: no pointer is passed.
        unsafe { call(libc::SYS_lseek, [from as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0]) }
    } else {
        // SAFETY: as above.
        usize::try_from(unsafe { *offset }).map_err(|_| libc::EINVAL)
    };
    let begin = match begin {
        Ok(begin) => begin,
        Err(error) => return result(Err(error)),
    };
    let sent = steps(to, |socket, call| send_file_step(to, socket, from, begin, count, call));
    // The file can be sent from here by TCP, too.
    let Some(sent) = sent else {
        return next!(sendfile(to, from, offset, count): c_int, c_int, *mut off_t, size_t => ssize_t);
    };
    let end = begin + sent.max(0) as usize;
    let error = crate::foreign::errno();
    // SAFETY: as above.
    unsafe {
        if offset.is_null() {
            let _ = call(libc::SYS_lseek, [from as usize, end, libc::SEEK_SET as usize, 0, 0, 0]);
        } else {
            *offset = end as off_t;
        }
    }
    crate::foreign::set_errno(error);
    signal_broken(sent, 0)
}

/// sendfile(2)
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn sendfile64(
    to: c_int,
    from: c_int,
    offset: *mut off_t,
    count: size_t,
) -> ssize_t {
    // SAFETY: by the caller's contract.
    unsafe { sendfile(to, from, offset, count) }
}

/// Sends bytes of a file, or says what to wait for first.
fn send_file_step(
    to: RawFd,
    socket: &Socket,
    from: RawFd,
    begin: usize,
    count: usize,
    all: &mut Call,
) -> Step {
    let mut piece = vec![0_u8; PIECE.min(count)];
    while all.done < count {
        let wanted = piece.len().min(count - all.done);
        let place = [from as usize, piece.as_mut_ptr() as usize, wanted, begin + all.done, 0, 0];
        // SAFETY: the buffer has this many bytes.
        let read: Answer = unsafe { call(libc::SYS_pread64, place) };
        let read = match read {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if all.done == 0 => return Step::Done(Err(error)),
            Err(_) => break,
        };
        let end = all.done + read;
        let step = socket.write(to, &mut [IoSlice::new(&piece[..read])], Manner::default(), all);
        if !matches!(step, Step::Done(Ok(done)) if done == end) {
            return step;
        }
    }
    Step::Done(Ok(all.done))
}

/// splice(2): a connection stays on TCP for it.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_offset: *mut off_t,
    to: c_int,
    to_offset: *mut off_t,
    length: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    // Programs copy the bytes if this fails.
    if is_ours(from, true) || is_ours(to, true) {
        return result(Err(libc::EINVAL));
    }
    next!(splice(from, from_offset, to, to_offset, length, flags):
        c_int, *mut off_t, c_int, *mut off_t, size_t, libc::c_uint => ssize_t)
}
