//! The kernel's calls, past the functions that this library stands in for.

use std::ffi::CStr;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use libc::{c_int, c_long, c_void};

/// Descriptors of this library are out of the way of those that the program counts on.
const OWN: c_int = 512;

/// Limit on descriptors that leaves room for those of this library.
pub(crate) const ROOM: u64 = 65_536;

/// The result of a call, or its `errno`.
pub(crate) type Answer<T = usize> = Result<T, i32>;

/// Makes a system call. The arguments are those of the kernel.
///
/// # Safety
/// The call's own contract holds for the arguments.
pub(crate) unsafe fn call(number: c_long, arguments: [usize; 6]) -> Answer {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller vouches for the arguments.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if result < 0 { Err(errno()) } else { Ok(result as usize) }
}

pub(crate) fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

pub(crate) fn set_errno(error: i32) {
    // SAFETY: the C library returns this thread's variable.
    unsafe { *libc::__errno_location() = error };
}

/// The process' number, not that of a parent whose memory a child of `vfork(2)` has.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// Copies a descriptor for this library.
pub(crate) fn own(fd: RawFd) -> Option<OwnedFd> {
    // SAFETY: no pointer is passed.
    let copy = unsafe {
        call(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD_CLOEXEC as usize, OWN as usize, 0, 0, 0])
    };
    let copy = copy.or_else(|_| {
        // SAFETY: no pointer is passed.
        unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 0, 0, 0, 0]) }
    });
    // SAFETY: the descriptor was just made, and nothing else has it.
    copy.ok().map(|copy| unsafe { OwnedFd::from_raw_fd(copy as RawFd) })
}

pub(crate) fn close(fd: RawFd) -> Answer {
    // SAFETY: no pointer is passed.
    unsafe { call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) }
}

pub(crate) fn shutdown(fd: RawFd, how: c_int) -> Answer {
    // SAFETY: no pointer is passed.
    unsafe { call(libc::SYS_shutdown, [fd as usize, how as usize, 0, 0, 0, 0]) }
}

pub(crate) fn is_nonblocking(fd: RawFd) -> bool {
    // SAFETY: no pointer is passed.
    let flags = unsafe { call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags.is_ok_and(|flags| flags as c_int & libc::O_NONBLOCK != 0)
}

fn option<T: Default>(fd: RawFd, level: c_int, name: c_int) -> Option<T> {
    let (mut value, mut length) = (T::default(), size_of::<T>() as libc::socklen_t);
    let at = [ptr::from_mut(&mut value) as usize, ptr::from_mut(&mut length) as usize];
    // SAFETY: the value and its length are valid, and T is a number or a pair of numbers.
    unsafe { call(libc::SYS_getsockopt, [fd as usize, level as usize, name as usize, at[0], at[1], 0]) }
        .ok()
        .map(|_| value)
}

/// Returns whether this is a TCP socket.
pub(crate) fn is_tcp(fd: RawFd) -> bool {
    option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
}

/// Returns the time of `SO_RCVTIMEO` or `SO_SNDTIMEO`, if it is set.
pub(crate) fn timeout(fd: RawFd, name: c_int) -> Option<Duration> {
    let [seconds, microseconds]: [i64; 2] = option(fd, libc::SOL_SOCKET, name)?;
    let timeout = Duration::new(seconds.max(0) as u64, microseconds.clamp(0, 999_999) as u32 * 1000);
    Some(timeout).filter(|timeout| !timeout.is_zero())
}

/// Returns how many descriptors the process may have.
pub(crate) fn most_descriptors() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Whether the other end of a TCP connection has not acknowledged everything.
pub(crate) fn is_sending(fd: RawFd) -> bool {
    let mut waiting: c_int = 0;
    let at = ptr::from_mut(&mut waiting) as usize;
    // SAFETY: the number is valid.
    let asked = unsafe { call(libc::SYS_ioctl, [fd as usize, libc::TIOCOUTQ as usize, at, 0, 0, 0]) };
    asked.is_ok() && waiting > 0
}

/// Returns the address of a socket's own end, or of its peer's, if it is one of IPv4.
pub(crate) fn address(fd: RawFd, of_peer: bool) -> Option<SocketAddrV4> {
    // SAFETY: zeros are a valid value of this structure of numbers.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&address) as libc::socklen_t;
    let call_of = if of_peer { libc::SYS_getpeername } else { libc::SYS_getsockname };
    let at = [ptr::from_mut(&mut address) as usize, ptr::from_mut(&mut length) as usize];
    // SAFETY: the structure and its length are valid.
    unsafe { call(call_of, [fd as usize, at[0], at[1], 0, 0, 0]) }.ok()?;
    // SAFETY: the kernel has filled in the structure.
    unsafe { address_at(ptr::from_ref(&address).cast(), length) }
}

/// Returns an address of IPv4, or one of IPv6 that stands for it.
///
/// # Safety
/// `address` is null, or `length` bytes are there.
pub(crate) unsafe fn address_at(
    address: *const libc::sockaddr,
    length: libc::socklen_t,
) -> Option<SocketAddrV4> {
    if address.is_null() || (length as usize) < size_of::<libc::sockaddr_in>() {
        return None;
    }
    // SAFETY: the structure is long enough for its family.
    let family = unsafe { ptr::read_unaligned(ptr::addr_of!((*address).sa_family)) };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: the length was checked.
            let address: libc::sockaddr_in = unsafe { ptr::read_unaligned(address.cast()) };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)))
        }
        libc::AF_INET6 if length as usize >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the length was checked.
            let address: libc::sockaddr_in6 = unsafe { ptr::read_unaligned(address.cast()) };
            let ip = std::net::Ipv6Addr::from(address.sin6_addr.s6_addr).to_ipv4_mapped()?;
            Some(SocketAddrV4::new(ip, u16::from_be(address.sin6_port)))
        }
        _ => None,
    }
}

/// Returns the addresses of IPv4 of the devices that `wanted` names.
pub(crate) fn addresses(wanted: impl Fn(&str) -> bool) -> Vec<Ipv4Addr> {
    let mut list = ptr::null_mut();
    // SAFETY: the C library fills in the list's beginning.
    if unsafe { libc::getifaddrs(&mut list) } != 0 {
        return Vec::new();
    }
    let (mut found, mut next) = (Vec::new(), list);
    while !next.is_null() {
        // SAFETY: the list is the C library's, and ends with a null pointer.
        let entry = unsafe { &*next };
        next = entry.ifa_next;
        // SAFETY: names and addresses of the list are valid, or null.
        let (name, address) = unsafe {
            let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            (CStr::from_ptr(entry.ifa_name), address_at(entry.ifa_addr, length))
        };
        if let (Ok(name), Some(address)) = (name.to_str(), address) {
            if wanted(name) {
                found.push(*address.ip());
            }
        }
    }
    // SAFETY: the list came from `getifaddrs`, and this is its last use.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// Whether the kernel would continue a call after every signal that has a handler.
pub(crate) fn restarts_all() -> bool {
    (1..=64).all(|signal| {
        // SAFETY: zeros are a valid value, and the structure is only filled in.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut action);
            action
        };
        let has_handler = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
        !has_handler || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// Returns what holds of `events` for a file now.
pub(crate) fn poll_now(fd: RawFd, events: i16) -> i16 {
    let mut files = [libc::pollfd { fd, events, revents: 0 }];
    match poll(&mut files, Some(Duration::ZERO), None) {
        Ok(_) => files[0].revents,
        Err(_) => libc::POLLERR,
    }
}

/// Signals to block meanwhile, where the program has them.
pub(crate) type Mask = Option<*const c_void>;

/// Bytes of the kernel's set of signals.
const MASK_BYTES: usize = 8;

pub(crate) fn poll(files: &mut [libc::pollfd], left: Option<Duration>, mask: Mask) -> Answer {
    let time = left.map(timespec);
    let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mask = mask.unwrap_or(ptr::null());
    // SAFETY: structures and number are valid; the mask is null or the program's.
    unsafe {
        call(
            libc::SYS_ppoll,
            [files.as_mut_ptr() as usize, files.len(), time as usize, mask as usize, MASK_BYTES, 0],
        )
    }
}

pub(crate) fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

pub(crate) fn epoll_create() -> Option<OwnedFd> {
    // SAFETY: no pointer is passed.
    let made = unsafe { call(libc::SYS_epoll_create1, [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0]) };
    // SAFETY: the descriptor was just made, and nothing else has it.
    let made = made.ok().map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })?;
    use std::os::fd::AsRawFd;
    own(made.as_raw_fd())
}

pub(crate) fn epoll_ctl(epoll: RawFd, operation: c_int, fd: RawFd, mut event: libc::epoll_event) -> Answer {
    let event = ptr::from_mut(&mut event) as usize;
    // SAFETY: the event is valid.
    unsafe { call(libc::SYS_epoll_ctl, [epoll as usize, operation as usize, fd as usize, event, 0, 0]) }
}

pub(crate) fn epoll_wait(
    epoll: RawFd,
    events: &mut [libc::epoll_event],
    left: Option<Duration>,
    mask: Mask,
) -> Answer {
    // Rounded up, so that a wait is not over before its time.
    let milliseconds =
        left.map_or(-1, |left| left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int);
    let mask = mask.unwrap_or(ptr::null());
    // SAFETY: the events are valid; the mask is null or the program's.
    unsafe {
        call(
            libc::SYS_epoll_pwait,
            [
                epoll as usize,
                events.as_mut_ptr() as usize,
                events.len().min(i32::MAX as usize),
                milliseconds as usize,
                mask as usize,
                MASK_BYTES,
            ],
        )
    }
}

/// Has the C library call a function in each child of this process.
pub(crate) fn at_fork(child: unsafe extern "C" fn()) {
    // SAFETY: the function stays.
    unsafe { libc::pthread_atfork(None, None, Some(child)) };
}

/// Has the C library call a function when the process ends.
pub(crate) fn at_exit(end: extern "C" fn()) {
    // SAFETY: the function stays.
    unsafe { libc::atexit(end) };
}
