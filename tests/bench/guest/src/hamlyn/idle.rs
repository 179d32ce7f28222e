//! Things that must cost nothing: open but unused objects, and a sleeping receiver.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hamlyn::{Card, Polling, Slot, Terminus};
use serde_json::json;

use crate::engine::result::{Meter, Outcome, say};

/// Numbers of unused objects to hold open.
#[derive(Debug, clap::Args)]
pub(crate) struct IdleOptions {
    /// Additional send termini to hold open
    #[arg(long, default_value_t = 0)]
    idle_termini: u32,
    /// Additional slots to hold open
    #[arg(long, default_value_t = 0)]
    idle_slots: u32,
    /// Additional processes, each asleep at its own queue
    #[arg(long, default_value_t = 0)]
    idle_processes: u32,
}

impl IdleOptions {
    /// Opens the objects; they stay open until the returned value is dropped.
    pub(crate) fn open(&self, card: &Card) -> Outcome<Held> {
        let area = card.create_area(4096)?;
        let termini =
            (0..self.idle_termini).map(|_| card.create_terminus()).collect::<hamlyn::Result<_>>()?;
        let slots = (0..self.idle_slots).map(|_| card.slot(&area).create()).collect::<hamlyn::Result<_>>()?;
        let processes = (0..self.idle_processes).map(|_| Sleeper::start()).collect::<Outcome<_>>()?;
        Ok(Held { _slots: slots, _termini: termini, _processes: processes })
    }
}

/// Unused objects.
pub(crate) struct Held {
    _slots: Vec<Slot>,
    _termini: Vec<Terminus>,
    _processes: Vec<Sleeper>,
}

/// A process that sleeps until this is dropped.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["card-doze", "--seconds", "3600"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut sleeper = Self(command.spawn()?);
        let mut line = String::new();
        // The first line shows that the process has its queue.
        let output = sleeper.0.stdout.take().ok_or("a process without output")?;
        if BufReader::new(output).read_line(&mut line)? == 0 {
            return Err("an idle process ended at once".into());
        }
        Ok(sleeper)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // An error means that the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct DozeOptions {
    /// Seconds to sleep
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub(crate) fn doze(options: &DozeOptions) -> Outcome {
    let card = Card::open_default()?;
    let queue = card.create_queue(2)?;
    let time = Duration::from_secs(options.seconds);
    say(&json!({ "ready": true }))?;
    let meter = Meter::start();
    queue.set_polling(Polling::NEVER);
    match queue.recv_timeout(time) {
        Err(error) if error.is_timed_out() => {}
        Err(error) => return Err(error.into()),
        Ok(message) => return Err(format!("an unexpected message arrived: {message:?}").into()),
    }
    let (ns, cpu_ns) = meter.stop();
    say(&json!({ "ns": ns, "cpu_ns": cpu_ns }))
}
