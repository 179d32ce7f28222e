//! What happens when the program starts, forks and ends.

use std::fs;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::socket::Socket;
use crate::{bell, environment, foreign, link, node, report, table};

/// The process whose connections these are.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// The loader calls this before the program begins.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

extern "C" fn start() {
    PROCESS.store(foreign::process(), Ordering::Relaxed);
    environment::get();
    foreign::at_fork(child);
    foreign::at_exit(at_exit);
}

extern "C" fn at_exit() {
    end();
}

/// Whether this is the process itself, not a child of vfork(2) that has its memory for a while.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == foreign::process()
}

/// In a child: the parent's connections stay the parent's, but for what TCP can do.
extern "C" fn child() {
    PROCESS.store(foreign::process(), Ordering::Relaxed);
    HAS_ENDED.store(false, Ordering::Relaxed);
    report::begin_anew();
    link::begin_anew();
    bell::begin_anew();
    table::inherit(Socket::inherit);
    if node::forget() {
        close_files();
    }
}

/// Closes the copies of the parent's files at the card: its peers learn of its end by their
/// release.
fn close_files() {
    let Ok(files) = fs::read_dir("/proc/self/fd") else { return };
    let models = ["/dev/hamlyn", "/dev/shrimp", "/dev/clan", "/dev/dart", "/dev/echo", "anon_inode:[hamlyn-"];
    for file in files.flatten() {
        let target = fs::read_link(file.path()).unwrap_or_default();
        let is_ours =
            target.to_str().is_some_and(|target| models.iter().any(|model| target.starts_with(model)));
        if let (true, Some(Ok(fd))) = (is_ours, file.file_name().to_str().map(str::parse::<RawFd>)) {
            let _ = foreign::close(fd);
        }
    }
}

/// The process ends: what it has sent arrives.
pub(crate) fn end() {
    if !is_own_process() || HAS_ENDED.swap(true, Ordering::Relaxed) {
        return;
    }
    let open = table::between(0, RawFd::MAX).into_iter().filter_map(table::get);
    open.filter_map(|open| open.socket().cloned()).for_each(|socket| socket.close());
    report::write();
}
