//! What has become of this process' connections.

use std::fs::OpenOptions;
use std::io::Write;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::environment;

pub(crate) static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
pub(crate) static SWITCHED: AtomicU64 = AtomicU64::new(0);
pub(crate) static EXPRESS: AtomicU64 = AtomicU64::new(0);
pub(crate) static TCP_BYTES: AtomicU64 = AtomicU64::new(0);
pub(crate) static CHANNEL_BYTES: AtomicU64 = AtomicU64::new(0);

pub(crate) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// A child's counts are its own.
pub(crate) fn begin_anew() {
    for counter in [&CONNECTIONS, &SWITCHED, &EXPRESS, &TCP_BYTES, &CHANNEL_BYTES] {
        counter.store(0, Ordering::Relaxed);
    }
}

/// Appends a line to the file of [`environment::Environment::report`].
pub(crate) fn write() {
    let Some(file) = &environment::get().report else { return };
    let program = std::env::current_exe().ok();
    let program = program.as_deref().and_then(|path| path.file_name()?.to_str()).unwrap_or("?");
    let [connections, switched, express, tcp, channel] =
        [&CONNECTIONS, &SWITCHED, &EXPRESS, &TCP_BYTES, &CHANNEL_BYTES].map(|it| it.load(Ordering::Relaxed));
    let line = format!(
        "{{\"program\":\"{program}\",\"pid\":{},\"connections\":{connections},\"switched\":{switched},\
         \"express\":{express},\"tcp_bytes\":{tcp},\"channel_bytes\":{channel}}}\n",
        process::id()
    );
    // Another user's file in a folder of all can be appended to, but not opened to be made.
    let append = |creates| OpenOptions::new().append(true).create(creates).open(file);
    let opened = append(false).or_else(|_| append(true));
    // The program is ending: a report that cannot be written hurts nothing.
    let _ = opened.and_then(|mut file| file.write_all(line.as_bytes()));
}
