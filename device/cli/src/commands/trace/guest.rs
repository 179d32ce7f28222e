//! The tracepoints of a machine's kernel, for a trace of its card.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use hamlyn_lab::plain::plain;
use hamlyn_lab::{Exit, Input, Program, Remote, What};
use hamlyn_trace::guest::{Clock, Line};
use hamlyn_trace::timeline::Timeline;

use super::clock::{monotonic, nanoseconds};
use crate::commands::machines::find;
use crate::commands::tell;

/// What runs in the machine, until its standard input ends: it passes events on, and puts a mark
/// between them for each line that it reads.
const SCRIPT: &str = "\
mount -t tracefs none /sys/kernel/tracing 2>/dev/null
cd /sys/kernel/tracing && [ -d events/hamlyn ] || { echo 'there are no tracepoints of hamlyn.ko' >&2; exit 1; }
echo mono >trace_clock; echo 1 >events/hamlyn/enable
cat trace_pipe & pipe=$!
while read -r mark; do echo \"hamlyn-mark $mark\" >trace_marker; done
echo 0 >events/hamlyn/enable; kill $pipe";

/// Number of marks in the first second, which tell the clocks' distance.
const MARKS: usize = 40;
/// Time between them, and between later ones.
const OFTEN: Duration = Duration::from_millis(25);
const SELDOM: Duration = Duration::from_secs(1);
/// Interrupts that were raised this long before the first mark was asked for have been taken by
/// then.
const TAKEN: Duration = Duration::from_millis(100);
/// How long the machine may take to stop tracing.
const PATIENCE: Duration = Duration::from_secs(3);

/// A machine whose kernel is traced, until this is dropped.
pub(super) struct Guest {
    name: String,
    /// Its number in the trace.
    number: usize,
    clock: Clock,
    /// Lines of its trace, each with the time when it came.
    lines: Receiver<(u64, String)>,
    /// When each mark was asked for.
    marks: Arc<Mutex<Vec<u64>>>,
    input: Input,
    /// The first mark has come: interrupts are counted.
    counts: bool,
}

impl Guest {
    /// Begins to trace a machine.
    pub(super) fn start(name: &str, number: usize) -> anyhow::Result<Self> {
        let machine = find(name)?;
        let argv = ["sh", "-c", SCRIPT].map(Into::into).into();
        let program = Program { argv, uid: Some(0), stdin: true, ..Program::default() };
        let remote = Remote::start(&machine.lab, &machine.name, program)?;
        let (input, marks, (sender, lines)) = (remote.input(), Arc::default(), channel());
        let reader = machine.name.clone();
        thread::Builder::new().spawn(move || read(remote, &reader, &sender)).context("no thread")?;
        let (asker, asked) = (input.clone(), Arc::clone(&marks));
        thread::Builder::new().spawn(move || ask(&asker, &asked)).context("no thread")?;
        Ok(Self { name: machine.name, number, clock: Clock::default(), lines, marks, input, counts: false })
    }

    /// Notes an interrupt of the machine's card.
    pub(super) fn interrupt(&mut self, time: u64, vector: u64) {
        self.clock.raised(time, vector);
    }

    /// Adds the events that have come.
    pub(super) fn poll(&mut self, timeline: &mut Timeline) {
        while let Ok((received, line)) = self.lines.try_recv() {
            let Some(line) = Line::parse(&line) else { continue };
            self.clock.before(received, line.time);
            if let Some(mark) = line.mark() {
                let asked = self.marks.lock().unwrap_or_else(PoisonError::into_inner).get(mark).copied();
                let Some(asked) = asked else { continue };
                self.clock.after(asked, line.time);
                if !std::mem::replace(&mut self.counts, true) {
                    self.clock.count_from(asked.saturating_sub(nanoseconds(TAKEN)));
                }
                continue;
            }
            if let Some(vector) = line.vector().filter(|_| self.counts) {
                self.clock.taken(line.time, vector);
            }
            let time = self.clock.host(line.time).unwrap_or(received);
            timeline.push_event(line.event(self.number, time));
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(error) = self.clock.error() {
            let micros = error.div_ceil(1000);
            tell(&format!("events of {} may be shown up to {micros} us too early", plain(&self.name)));
        }
        // Its kernel stops tracing before the connection ends.
        self.input.close();
        let end = Instant::now() + PATIENCE;
        while !matches!(
            self.lines.recv_timeout(end.saturating_duration_since(Instant::now())),
            Err(RecvTimeoutError::Disconnected | RecvTimeoutError::Timeout)
        ) {}
    }
}

/// Passes lines on until the machine's program ends.
fn read(mut remote: Remote, name: &str, lines: &Sender<(u64, String)>) {
    let (mut rest, mut errors) = (Vec::new(), Vec::new());
    loop {
        match remote.word() {
            Ok(What::OutBytes(bytes)) => {
                let now = monotonic();
                rest.extend_from_slice(&bytes.0);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line = String::from_utf8_lossy(&rest[..end]).into_owned();
                    rest.drain(..=end);
                    let _ = lines.send((now, line));
                }
            }
            Ok(What::ErrBytes(bytes)) => errors.extend_from_slice(&bytes.0),
            Ok(What::Exit(Exit::Code(0))) => return,
            Ok(What::Exit(_)) => {
                let errors = String::from_utf8_lossy(&errors);
                return tell(&plain(&format!("the kernel of {name} is not traced: {}", errors.trim_end())));
            }
            Ok(_) => {}
            Err(error) => return tell(&plain(&format!("the kernel of {name} is not traced: {error:#}"))),
        }
    }
}

/// Asks for marks until the program ends.
fn ask(input: &Input, asked: &Mutex<Vec<u64>>) {
    for mark in 0_usize.. {
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(monotonic());
        if !input.write(format!("{mark}\n").as_bytes()) {
            return;
        }
        thread::sleep(if mark < MARKS { OFTEN } else { SELDOM });
    }
}
