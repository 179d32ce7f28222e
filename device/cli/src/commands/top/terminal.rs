//! The terminal: it is restored however the program ends.

use std::io::{Stdout, stdin};
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::iterator::Signals;

use super::keys::{self, Key};
use super::reading::{self, Reading};
use super::screen::Screen;

/// How soon a reading, a signal or another size of the terminal is noticed.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long a signal waits for a terminal that takes no output.
const PATIENCE: Duration = Duration::from_secs(2);

/// A terminal with a screen of its own. Dropping it restores the terminal, and so does a panic.
struct OwnScreen(Terminal<CrosstermBackend<Stdout>>);

impl OwnScreen {
    fn enter() -> anyhow::Result<OwnScreen> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(OwnScreen(terminal)),
            Err(error) => {
                let _ = ratatui::try_restore();
                Err(error).context("cannot set up the terminal")
            }
        }
    }
}

impl Drop for OwnScreen {
    fn drop(&mut self) {
        let _ = self.0.show_cursor();
        // The terminal may be closed.
        let _ = ratatui::try_restore();
    }
}

/// Shows the counters until a key or a signal ends it.
pub(super) fn run(every: Duration) -> anyhow::Result<()> {
    let stop = stop_on_signals()?;
    let readings = read_every(every);
    let mut terminal = OwnScreen::enter()?;
    let (mut screen, mut last) = (Screen::new(), None::<Arc<Reading>>);
    let (mut typed, mut size, mut is_stale) = (Vec::new(), None, true);
    while !stop.load(Ordering::Relaxed) {
        match readings.try_recv() {
            Ok(reading) => {
                let now = reading?;
                screen.update(&now, last.as_deref(), every);
                last = Some(now);
                is_stale = true;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => bail!("the thread that reads the counters has ended"),
        }
        let size_now = terminal.0.size().ok();
        if is_stale || size != size_now {
            terminal.0.draw(|frame| screen.draw(frame)).context("cannot write to the terminal")?;
            (size, is_stale) = (size_now, false);
        }
        if !await_keys(&mut typed)? {
            return Ok(());
        }
        for key in keys::take(&mut typed) {
            if key == Key::Leave {
                return Ok(());
            }
            screen.press(key);
            is_stale = true;
        }
    }
    Ok(())
}

/// Returns a flag that signals set. If the screen still waits for its terminal some time later, the
/// process ends from here.
fn stop_on_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let all = TERM_SIGNALS.iter().chain(&[SIGHUP]);
    let mut signals = Signals::new(all).context("cannot catch signals")?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            stopped.store(true, Ordering::Relaxed);
            thread::sleep(PATIENCE);
            // To leave the screen would block as well.
            let _ = disable_raw_mode();
            exit(1);
        }
    });
    Ok(stop)
}

/// Waits a moment for keys. Returns false if the terminal is closed.
fn await_keys(typed: &mut Vec<u8>) -> anyhow::Result<bool> {
    let input = stdin();
    let mut ready = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut ready, Some(&LOOK_UP)) {
        Ok(0) | Err(Errno::INTR) => return Ok(true),
        Ok(_) => {}
        Err(error) => return Err(error).context("cannot wait for keys"),
    }
    let mut bytes = [0; 64];
    // Bypasses std's buffer, whose contents poll does not report.
    match rustix::io::read(&input, &mut bytes) {
        Ok(0) | Err(Errno::IO) => Ok(false),
        Ok(count) => {
            typed.extend_from_slice(&bytes[..count]);
            Ok(true)
        }
        Err(Errno::INTR | Errno::AGAIN) => Ok(true),
        Err(error) => Err(error).context("cannot read keys"),
    }
}

/// Reads the counters in a thread of its own: a process that does not answer must not delay keys.
fn read_every(every: Duration) -> Receiver<anyhow::Result<Arc<Reading>>> {
    let (send, receive) = sync_channel(1);
    thread::spawn(move || {
        let mut last = None::<Arc<Reading>>;
        loop {
            let start = Instant::now();
            let reading = reading::take(last.as_deref()).map(Arc::new);
            last = reading.as_ref().ok().cloned();
            let failed = reading.is_err();
            if send.send(reading).is_err() || failed {
                return;
            }
            thread::sleep(every.saturating_sub(start.elapsed()));
        }
    });
    receive
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::process::{Command, Stdio};

    use rustix::fs::OFlags;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    /// Set for the process that panics.
    const PANICS: &str = "HAMLYN_TEST_PANICS";

    #[test]
    fn panic_restores_the_terminal() {
        if env::var_os(PANICS).is_some() {
            let _own = OwnScreen::enter().unwrap();
            panic!("on purpose");
        }
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let no_controlling = OFlags::NOCTTY.bits().try_into().unwrap();
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(no_controlling);
        let inner = options.open(name.to_str().unwrap()).unwrap();
        let before = tcgetattr(&inner).unwrap().local_modes;
        assert!(before.contains(LocalModes::ICANON));
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([
            "--exact",
            "commands::top::terminal::tests::panic_restores_the_terminal",
            "--nocapture",
        ]);
        command.stdin(inner.try_clone().unwrap()).stdout(inner.try_clone().unwrap()).stderr(Stdio::null());
        let status = command.env(PANICS, "1").status().unwrap();
        drop(command);
        assert!(!status.success());
        assert_eq!(tcgetattr(&inner).unwrap().local_modes, before);
        drop(inner);
        let (mut terminal, mut shown) = (File::from(terminal), Vec::new());
        // Fails at the end, as the other side is closed.
        let _ = terminal.read_to_end(&mut shown);
        let shown = String::from_utf8_lossy(&shown);
        let (entered, left) = (shown.find("\x1b[?1049h").unwrap(), shown.find("\x1b[?1049l").unwrap());
        assert!(entered < left, "{shown:?}");
    }
}
