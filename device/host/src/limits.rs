//! Limits that server processes set for themselves.

use std::fs;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Contents of a core dump, see core(5): private memory and ELF headers. Shared memory is excluded:
/// it is the guests' memory, their windows and the rings.
const CORE: &str = "0x31";

/// Keeps guests' memory out of core dumps. Debuggers are not affected.
pub(crate) fn keep_guests_out_of_core_dumps() {
    if let Err(error) = fs::write("/proc/self/coredump_filter", CORE) {
        tracing::warn!("a core dump of this process will hold guests' memory: {error}");
    }
}

/// Makes a write beyond `RLIMIT_FSIZE` fail with an error, instead of the signal that ends the
/// process. The limit also applies to memory files.
pub fn survive_file_size_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
    // This cannot fail: the soft limit is raised to the hard limit.
    let _ = setrlimit(Resource::Fsize, Rlimit { current: maximum, maximum });
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default()) {
        tracing::warn!("a file over the file size limit will end this process: {error}");
    }
}

/// Raises the limit of descriptors to the system's maximum. The usual limit of 1,024 is not enough
/// for 64 cards.
pub(crate) fn allow_many_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("cannot have more descriptors than there are: {error}");
    }
}
