//! Scenes of the Hamlyn cards' demo. The programs in the machines are examples of the guest
//! library.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

use hamlyn_lab::{Lab, Run};

/// Both sides generate their bytes from this seed.
const SEED: &str = "1996";

/// Time-out for a refusal. A packet is refused in microseconds, and on a loaded machine in
/// milliseconds.
const REFUSAL: Duration = Duration::from_secs(10);

/// Times of round trips, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct RoundTrips {
    #[serde(rename = "round_trips")]
    pub(super) count: u64,
    pub(super) min_ns: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

/// Makes round trips of tagged remote writes by direct I/O.
pub(super) fn round_trips(lab: &Lab, count: u64, size: u64) -> anyhow::Result<RoundTrips> {
    let mut echo = lab.vm(0).run(["ping-pong", "serve"])?;
    let ticket = echo.answer_text("ticket")?;
    let (count, size) = (count.to_string(), size.to_string());
    let arguments = ["ping-pong", "run", "--ticket", &ticket, "--count", &count, "--size", &size];
    let mut ping = lab.vm(1).run(arguments)?;
    echo.say(&ping.answer_text("ticket")?)?;
    last_word(&mut ping)
}

/// A message by DMA, gathered from several send buffers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    pub(super) buffers: u64,
}

impl Transfer {
    /// Sends it and has it verified. Returns the rate of the sender's card in MB/s (10^6 bytes).
    pub(super) fn run(self, lab: &Lab) -> anyhow::Result<f64> {
        let (bytes, buffers) = (self.bytes.to_string(), self.buffers.to_string());
        let receive = ["transfer", "receive", "--bytes", &bytes, "--seed", SEED];
        let mut receiver = lab.vm(self.to).run(receive)?;
        let ticket = receiver.answer_text("ticket")?;
        let send = [
            "transfer",
            "send",
            "--ticket",
            &ticket,
            "--bytes",
            &bytes,
            "--seed",
            SEED,
            "--buffers",
            &buffers,
        ];
        let mut sender = lab.vm(self.from).run(send)?;
        let sent: Sent = last_word(&mut sender)?;
        let received: Received = last_word(&mut receiver)?;
        if sent.sent != self.bytes || received.received != self.bytes {
            bail!("of {} bytes, {} were sent and {} received", self.bytes, sent.sent, received.received);
        }
        if !received.verified {
            bail!("the bytes that arrived are not the ones that were sent");
        }
        Ok(sent.mb_per_s)
    }
}

#[derive(Deserialize)]
struct Sent {
    sent: u64,
    mb_per_s: f64,
}

#[derive(Deserialize)]
struct Received {
    received: u64,
    verified: bool,
}

/// An attempt to access another program's memory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Intrusion {
    /// The right slot, with a guessed key.
    WrongKey,
    /// The right slot and key, beyond the slot's bound.
    PastEnd,
}

impl Intrusion {
    /// Returns the title for the table and the progress output.
    pub(super) fn title(self) -> &'static str {
        match self {
            Intrusion::WrongKey => "an intruder with a wrong key",
            Intrusion::PastEnd => "an intruder past the end of the slot",
        }
    }

    /// Attempts it from the second machine. Returns how many packets the first machine's card
    /// refused.
    pub(super) fn run(self, lab: &Lab) -> anyhow::Result<u64> {
        let mut victim = lab.vm(0).run(["intrude", "watch"])?;
        let ticket = victim.answer_text("ticket")?;
        let before = lab.refused(0)?;
        let how = match self {
            Intrusion::WrongKey => "wrong-key",
            Intrusion::PastEnd => "past-end",
        };
        lab.vm(1).run(["intrude", "attack", "--ticket", &ticket, "--how", how])?.finish()?;
        let refused = wait_for_refusal(lab, before)?;
        victim.say("look")?;
        let seen: Unchanged = last_word(&mut victim)?;
        if !seen.unchanged {
            bail!("the receiver's memory has changed");
        }
        Ok(refused)
    }
}

#[derive(Deserialize)]
struct Unchanged {
    unchanged: bool,
}

fn wait_for_refusal(lab: &Lab, before: u64) -> anyhow::Result<u64> {
    let deadline = Instant::now() + REFUSAL;
    loop {
        let refused = lab.refused(0)?.saturating_sub(before);
        if refused > 0 {
            return Ok(refused);
        }
        if Instant::now() > deadline {
            bail!("the receiver's card has refused nothing after {REFUSAL:?}");
        }
        sleep(Duration::from_millis(10));
    }
}

/// Waits until the program succeeds. Returns the result, which is its last line.
fn last_word<T: for<'a> Deserialize<'a>>(run: &mut Run) -> anyhow::Result<T> {
    let last: Value = run.finish()?.pop().context("the program said nothing of its result")?;
    serde_json::from_value(last.clone()).with_context(|| format!("the program's result is {last}"))
}
