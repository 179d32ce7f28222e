//! `hamlyn-ping`: whether a peer answers, and how fast.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::json;

use crate::card::CardOption;
use crate::end::{WORD, Wait};
use crate::hello::Wish;
use crate::serve;
use crate::session::{Meeting, Session};
use crate::stop::Stop;
use crate::word;
use crate::{Outcome, say};

const EXAMPLES: &str = "\
Examples:
  hamlyn-ping                  on host 1: answers the messages of others
  hamlyn-ping 1                on another: asks host 1, until Ctrl-C
  hamlyn-ping -c 1000 -i 0 -q 1
  hamlyn-ping --express 1      through memory that both hosts share";

/// Interval of checks for Ctrl-C while an answer is pending.
const LOOK: Duration = Duration::from_millis(100);

/// Default name of the server.
const NAME: &str = "hamlyn-ping";

/// Sends messages to a peer, which returns them, and shows how long each took
///
/// It runs until Ctrl-C, or for --count messages, and then prints a summary. Without a peer it is
/// the answering side, until it is stopped. The exit status is 0 if an answer came, 1 if not.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    meeting: Meeting,
    #[command(flatten)]
    card: CardOption,
    /// Number of messages to send; without it, they are sent until Ctrl-C
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Size of each message in bytes
    #[arg(short, long, default_value_t = 16, value_name = "BYTES")]
    size: usize,
    /// Seconds between two messages
    #[arg(short, long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    interval: f64,
    /// Seconds to wait for an answer
    #[arg(short = 'W', long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    timeout: f64,
    /// Print only the summary
    #[arg(short, long)]
    quiet: bool,
    /// Print only the summary, as a JSON object
    #[arg(long)]
    json: bool,
}

/// Parses a time in seconds, at most a day.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("'{text}' is not a number of seconds"))?;
    if (0.0..=86400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(format!("{seconds} seconds are out of range (limit 86400)"))
    }
}

pub(crate) fn run(options: &Options) -> Outcome<ExitCode> {
    let (card, meeting) = (options.card.open()?, &options.meeting);
    let name = meeting.name(NAME);
    let Some(host) = meeting.peer else { return serve::listen(&card, name, options.json) };
    meeting.check(&card, options.size)?;
    let timeout = Duration::from_secs_f64(options.timeout);
    let mut session = Session::open(&card, (meeting, host, name), options.size, Wait::Adapt, timeout)?;
    session.ask(Wish::Echo, options.size, 0)?;
    let (sent, times) = ask(options, host, &mut session, timeout)?;
    summarise(options, host, sent, &times)?;
    if times.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    session.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Sends the requested messages. Returns their number, and the time of each answer.
fn ask(
    options: &Options,
    host: u32,
    session: &mut Session,
    timeout: Duration,
) -> Outcome<(u64, Histogram<u64>)> {
    let stop = Stop::catch()?;
    let mut times = Histogram::new(3)?;
    for number in 0..options.count.unwrap_or(u64::MAX) {
        let pause = if number == 0 { 0.0 } else { options.interval };
        if stop.rest(Duration::from_secs_f64(pause)) {
            return Ok((number, times));
        }
        let answer = round_trip(session, number, options.size, timeout, &stop)?;
        if let Answer::After(time) = answer {
            times.record(time.as_nanos() as u64)?;
        }
        if answer == Answer::NotAwaited {
            return Ok((number + 1, times));
        }
        if !options.quiet && !options.json {
            say(line(host, number, options.size, answer))?;
        }
    }
    Ok((options.count.unwrap_or(u64::MAX), times))
}

/// Outcome of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    After(Duration),
    NoneInTime,
    /// The user stopped the tool first.
    NotAwaited,
}

/// Sends a message, and blocks until it comes back unchanged.
fn round_trip(
    session: &mut Session,
    number: u64,
    size: usize,
    timeout: Duration,
    stop: &Stop,
) -> Outcome<Answer> {
    let pattern: Vec<u8> = (0..size as u64).map(|at| (at.wrapping_mul(167) + number * 13) as u8).collect();
    let start = Instant::now();
    // The word takes the place of the first bytes.
    let pattern = pattern.get(WORD..).unwrap_or_default();
    match session.end.send(word::number(number), pattern, Some(timeout)) {
        // The channel is full of messages that the peer has not taken.
        Err(error) if error.is_timed_out() => return Ok(Answer::NoneInTime),
        sent => sent?,
    }
    loop {
        let left = timeout.saturating_sub(start.elapsed());
        match session.end.receive(Some(left.min(LOOK))) {
            Ok(Some(answer)) if answer.word == word::number(number) => {
                let time = start.elapsed();
                return match answer.bytes()?.iter().zip(pattern).position(|(came, sent)| came != sent) {
                    Some(at) => Err(format!("byte {} of message {number} came back wrong", WORD + at).into()),
                    None => Ok(Answer::After(time)),
                };
            }
            // A late answer to an earlier message.
            Ok(Some(_)) => {}
            Ok(None) => return Err("the peer has closed the channel".into()),
            Err(error) if !error.is_timed_out() => return Err(error.into()),
            Err(_) if stop.rest(Duration::ZERO) => return Ok(Answer::NotAwaited),
            Err(_) if left > LOOK => {}
            Err(_) => return Ok(Answer::NoneInTime),
        }
    }
}

fn line(host: u32, number: u64, size: usize, answer: Answer) -> String {
    match answer {
        Answer::After(time) => {
            format!("{size} bytes from host {host}: seq={number} time={:.1} us", time.as_nanos() as f64 / 1e3)
        }
        _ => format!("no answer from host {host}: seq={number}"),
    }
}

fn summarise(options: &Options, host: u32, sent: u64, times: &Histogram<u64>) -> Outcome {
    let answered = times.len();
    if options.json {
        let (min, max) = (times.min(), times.max());
        let rtt = json!({ "min": min, "avg": times.mean(), "max": max, "mdev": times.stdev() });
        return say(json!({
            "host": host,
            "size": options.size,
            "sent": sent,
            "answered": answered,
            "rtt_ns": if times.is_empty() { json!(null) } else { rtt },
        }));
    }
    let lost = (sent - answered) as f64 * 100.0 / sent.max(1) as f64;
    say(format_args!("--- host {host}: {sent} sent, {answered} answered, {lost:.0}% lost"))?;
    if !times.is_empty() {
        let us = [times.min() as f64, times.mean(), times.max() as f64, times.stdev()].map(|ns| ns / 1e3);
        let [min, avg, max, mdev] = us;
        say(format_args!("rtt min/avg/max/mdev = {min:.1}/{avg:.1}/{max:.1}/{mdev:.1} us"))?;
    }
    Ok(())
}
