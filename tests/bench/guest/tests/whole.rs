//! The benchmark's transfers detect missing data. Uses cards without a machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Lab;
use serde_json::Value;

/// A program that uses one of a lab's cards.
struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(lab: &Lab, card: usize, role: &str) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hamlyn-bench-guest"))
            .args(role.split_whitespace())
            .env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card)?.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take().context("no standard input")?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, stdin, stdout })
    }

    fn ticket(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line)?;
        Ok(said["ticket"].as_str().with_context(|| format!("no ticket in {said}"))?.to_owned())
    }

    /// Returns the program's last output line, or its error.
    fn finish(mut self) -> Result<Value> {
        let mut text = String::new();
        self.stdout.read_to_string(&mut text)?;
        let output = self.child.wait_with_output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_str(&text)?)
    }
}

/// Runs both ends of an exchange. Returns the far end's result, then the near end's.
fn exchange(lab: &Lab, far: &str, near: &str) -> Result<[Result<Value>; 2]> {
    let (mut far, mut near) = (Program::start(lab, 1, far)?, Program::start(lab, 0, near)?);
    let (to_far, to_near) = (far.ticket()?, near.ticket()?);
    writeln!(far.stdin, "{to_near}")?;
    writeln!(near.stdin, "{to_far}")?;
    Ok([far.finish(), near.finish()])
}

const TRANSFER: &str = "--size 5000 --places 8 --warmup 8 --count 20";

fn transfer(lab: &Lab, more: &str) -> Result<[Result<Value>; 2]> {
    exchange(lab, &format!("card-sink {TRANSFER}"), &format!("card-send {TRANSFER} {more}"))
}

#[test]
fn a_transfer_is_whole_or_fails() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start()?;
    for said in transfer(&lab, "")? {
        assert_eq!(said?["messages"], 20);
    }
    // Omit a message in the first lap, whose places are fresh, and in later laps, where another
    // message was before. No other message brings the bytes of the one that is left out.
    for message in [0, 6, 12, 25] {
        let [sink, send] = transfer(&lab, &format!("--leave-out {message}"))?;
        let error = format!("{:#}", sink.unwrap_err());
        assert!(error.contains(&format!("message {message} did not bring its byte 0 (of 5000)")), "{error}");
        let error = format!("{:#}", send.unwrap_err());
        assert!(error.contains("the receiver found a message that is not what was sent"), "{error}");
    }
    Ok(())
}

#[test]
fn process_receives_all_messages_to_itself() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start()?;
    let said = Program::start(&lab, 0, &format!("card-send-self {TRANSFER}"))?.finish()?;
    assert_eq!(said["messages"], 20);
    let error = Program::start(&lab, 0, &format!("card-send-self {TRANSFER} --leave-out 14"))?.finish();
    let error = format!("{:#}", error.unwrap_err());
    assert!(error.contains("message 14 did not bring its byte 0"), "{error}");
    Ok(())
}

#[test]
fn every_kind_of_round_trip_checks_data() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start()?;
    let sizes = ["--size 0 --metadata 0", "--size 3", "--size 16", "--size 4000"];
    let with_metadata = [
        "--size 100 --metadata 60",
        "--size 9000 --metadata 4",
        "--size 0 --metadata 4 --fetch-metadata",
        "--size 3 --metadata 0 --fetch-metadata",
        "--size 9000 --metadata 60 --fetch-metadata",
    ];
    for shape in sizes.into_iter().chain(with_metadata) {
        let arguments = format!("{shape} --wait yield --warmup 2 --count 20");
        for said in exchange(&lab, &format!("card-echo {arguments}"), &format!("card-ping {arguments}"))? {
            assert_eq!(said.with_context(|| arguments.clone())?["messages"], 20);
        }
    }
    Ok(())
}

#[test]
fn program_without_the_library_receives_messages() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start()?;
    // More messages than a queue has entries, so the wrap flag turns.
    for said in exchange(&lab, "raw-echo --warmup 70 --count 200", "raw-ping --warmup 70 --count 200")? {
        let said = said?;
        assert_eq!((&said["messages"], &said["counters"]["messages_sent"]), (&200.into(), &270.into()));
    }
    Ok(())
}

#[test]
fn software_path_is_timed_without_a_card() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).one_process(true).start()?;
    for more in ["", "--raw"] {
        let said = Program::start(&lab, 0, &format!("software --count 200 {more}"))?.finish()?;
        assert_eq!(said["messages"], 200);
    }
    Ok(())
}
