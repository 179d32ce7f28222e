//! The signals that shut a process down.

use std::os::unix::net::UnixStream;

use anyhow::Context;

/// Returns a descriptor that becomes readable when a signal asks the process to end.
pub(crate) fn stop_on_signals() -> anyhow::Result<UnixStream> {
    let (stop, ring) = UnixStream::pair().context("cannot make a socket pair")?;
    for signal in signal_hook::consts::TERM_SIGNALS {
        signal_hook::low_level::pipe::register(*signal, ring.try_clone()?)
            .with_context(|| format!("cannot catch signal {signal}"))?;
    }
    Ok(stop)
}
