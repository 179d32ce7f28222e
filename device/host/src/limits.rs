//! What the processes that serve others set for themselves.

use std::fs;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a core dump contains, see core(5): private memory and ELF headers. Not shared memory, which
/// is the guests', their windows and the rings.
const CORE: &str = "0x31";

/// Keeps guests' memory out of core dumps. Nothing else changes: a debugger sees what it saw.
pub(crate) fn keep_guests_out_of_core_dumps() {
    if let Err(error) = fs::write("/proc/self/coredump_filter", CORE) {
        tracing::warn!("a core dump of this process will hold guests' memory: {error}");
    }
}

/// Has the system tell of a file that grows over `RLIMIT_FSIZE`, which counts for memory files,
/// too: by an error instead of the signal that ends the process.
pub fn survive_file_size_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    // Fails never: it is raised to what it may be.
    let _ = setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum });
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()) {
        tracing::warn!("a file over the file size limit will end this process: {error}");
    }
}

/// Takes as many descriptors as the system gives. The usual limit of 1,024 is not enough for 64
/// cards.
pub(crate) fn allow_many_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("cannot have more descriptors than there are: {error}");
    }
}
