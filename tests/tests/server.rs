//! The server of docs/programming.md with all its clients, including misbehaving ones: no machine,
//! two or three cards.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hamlyn::protocol::stream::{StreamOptions, StreamPair, StreamReceiver, StreamSender};
use hamlyn::{Card, ErrorKind, Manager};
use hamlyn_lab::{Kit, Lab};
use serde_json::Value;

/// No wait in these tests takes this long.
const WATCHDOG: Option<Duration> = Some(Duration::from_secs(60));

/// A program at a card.
struct Program {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(lab: &Lab, card: usize, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(Kit::find()?.program("examples/kv-server")?)
            .args(arguments)
            .arg("--by-hand")
            .env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card)?.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { child, input, output })
    }

    fn answer(&mut self) -> Result<Value> {
        Ok(serde_json::from_str(&self.output.next().context("the program said no more")??)?)
    }

    /// Passes a seed to the server. Returns the server's own seed, or the reason for a refusal.
    fn ask(&mut self, seed: &str) -> Result<Result<String, String>> {
        writeln!(self.input, "{seed}")?;
        let answer = self.answer()?;
        match (answer["seed"].as_str(), answer["refused"].as_str()) {
            (Some(seed), _) => Ok(Ok(seed.to_owned())),
            (_, Some(reason)) => Ok(Err(reason.to_owned())),
            _ => bail!("the server said {answer}"),
        }
    }

    /// Waits for the program's exit. Returns its last answer.
    fn finish(mut self) -> Result<Value> {
        let last = self.output.by_ref().last().context("no answer")??;
        let status = self.child.wait()?;
        ensure!(status.success(), "{status}: {last}");
        Ok(serde_json::from_str(&last)?)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended already. If the test failed, this cleans up.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the log of the cards' process, for a test that fails.
fn log_of(lab: &Lab) -> String {
    fs::read_to_string(lab.directory().join("fabric.log")).unwrap_or_default()
}

/// Carries the seeds of a crowd to its server and back. Passes on the first refusal, too, and stops
/// there.
fn introduce(crowd: &mut Program, server: &mut Program, clients: usize) -> Result<Option<String>> {
    for _ in 0..clients {
        let offer = crowd.answer()?;
        let answer = server.ask(offer["offer"].as_str().context("no offer")?)?;
        writeln!(crowd.input, "{}", answer.as_ref().unwrap_or_else(|reason| reason))?;
        if let Err(reason) = answer {
            return Ok(Some(reason));
        }
    }
    Ok(None)
}

fn lab(cards: usize, arguments: &[&str]) -> Result<Lab> {
    Lab::builder().vms(0).spare_cards(cards).one_process(true).card_args(arguments.iter().copied()).start()
}

#[test]
fn one_thread_serves_a_thousand_clients() -> Result<()> {
    let lab = lab(2, &[])?;
    let mut server = Program::start(&lab, 0, &["serve", "--until", "1000"])?;
    // Each answer is checked, and there are two for each client.
    let asked = ["crowd", "--clients", "1000", "--requests", "2000", "--size", "100"];
    let mut crowd = Program::start(&lab, 1, &asked)?;
    let refused = introduce(&mut crowd, &mut server, 1000).with_context(|| log_of(&lab))?;
    assert_eq!(refused, None);
    let result = crowd.finish()?;
    assert_eq!((result["messages"].as_u64(), result["all"].as_u64()), (Some(2000), Some(3000)));
    assert_eq!(server.finish()?["served"], 1000);
    Ok(())
}

/// A sleeping server is notified when its card's process exits, and exits, too.
#[test]
fn server_exits_with_its_card() -> Result<()> {
    let lab = lab(1, &[])?;
    let mut server = Program::start(&lab, 0, &["serve", "--until", "1000"])?;
    // The answer shows that the server is ready; then it sleeps.
    assert!(server.ask("no seed")?.is_err());
    drop(lab);
    let begun = Instant::now();
    while server.child.try_wait()?.is_none() {
        ensure!(begun.elapsed() < Duration::from_secs(60), "it sleeps on");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn value_longer_than_all_records_is_transferred() -> Result<()> {
    let lab = lab(2, &[])?;
    for ask in ["get", "put"] {
        let mut server = Program::start(&lab, 0, &["serve", "--until", "3"])?;
        let asked = ["crowd", "--clients", "3", "--requests", "6", "--size", "1048576", "--ask", ask];
        let mut crowd = Program::start(&lab, 1, &asked)?;
        assert_eq!(introduce(&mut crowd, &mut server, 3)?, None);
        assert_eq!(crowd.finish()?["bytes"], 6 << 20);
        server.finish()?;
    }
    Ok(())
}

/// Options for small streams.
const OPTIONS: StreamOptions = StreamOptions { record_size: 2048, records: 4, max_records: 4 };

/// Opens a card in this process.
fn at(lab: &Lab, card: usize) -> Result<Card> {
    Ok(Card::open(&format!("vfio-user:{}", lab.card_socket(card)?.display()))?)
}

/// A client in this test.
fn client(manager: &Manager, server: &mut Program) -> Result<Result<StreamPair, String>> {
    let receiver = StreamReceiver::create_with(manager, OPTIONS)?;
    Ok(match server.ask(&receiver.make_seed()?.to_string())? {
        Ok(seed) => Ok(StreamPair { sender: StreamSender::from_seed(manager, &seed.parse()?)?, receiver }),
        Err(reason) => Err(reason),
    })
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

/// Returns the next answer: its status, and its text.
fn answer(pair: &mut StreamPair) -> Result<(u8, Vec<u8>)> {
    let mut head = [0; 4];
    ensure!(pair.receiver.read_exact_or_end(&mut head, WATCHDOG)? == 4, "no answer");
    let mut bytes = vec![0; u32::from_le_bytes(head) as usize];
    ensure!(pair.receiver.read_exact_or_end(&mut bytes, WATCHDOG)? == bytes.len(), "half an answer");
    let text = bytes.split_off(1);
    Ok((bytes[0], text))
}

fn say(pair: &mut StreamPair, bytes: &[u8]) -> Result<()> {
    pair.sender.send(bytes)?;
    Ok(pair.sender.flush()?)
}

#[test]
fn misbehaving_clients_do_not_affect_other_clients() -> Result<()> {
    let lab = lab(2, &[])?;
    let mut server = Program::start(&lab, 0, &["serve", "--clients", "4", "--patience", "3000"])?;
    let manager = Manager::create(&at(&lab, 1)?)?;
    let mut sound = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    let mut malformed = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    let mut slow = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    let dead = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    let refused = client(&manager, &mut server)?.map(drop);
    assert_eq!(refused, Err("4 of 4 clients are being served: come again later".to_owned()));

    // The value is longer than a stream's records, so that an answer with it blocks until the
    // client reads it.
    let value = vec![7; 100_000];
    say(&mut sound, &frame(&[b"\x02\x01\x00k", &value[..]].concat()))?;
    assert_eq!(answer(&mut sound)?, (0, vec![]));

    say(&mut malformed, &frame(b"\x09\x00\x00"))?;
    assert_eq!(answer(&mut malformed)?, (2, b"request 9, with 0 bytes behind the key".to_vec()));
    assert!(malformed.receiver.receive(WATCHDOG)?.is_none(), "that was the last answer");
    let told = server.answer()?;
    assert_eq!((&told["client"], &told["answered"]), (&1.into(), &0.into()));

    for _ in 0..3 {
        say(&mut slow, &frame(b"\x01\x01\x00k"))?;
    }
    say(&mut sound, &frame(b"\x01\x01\x00k"))?;
    assert_eq!(answer(&mut sound)?, (0, value.clone()), "another's answers are not waited for");
    let told = server.answer()?;
    assert_eq!((&told["client"], &told["ended"]), (&2.into(), &"it took no answer for 3s".into()));
    let lost = loop {
        match slow.receiver.receive(WATCHDOG) {
            Ok(Some(record)) => {
                let number = record.number();
                slow.receiver.release(number)?;
            }
            Ok(None) => bail!("half an answer was taken for all"),
            Err(error) => break error,
        }
    };
    assert_eq!(lost.kind(), ErrorKind::PeerLost);

    drop(dead);
    let told = server.answer()?;
    assert_eq!(told["client"], 3);
    assert!(told["ended"].as_str().is_some_and(|why| why.contains("the peer is lost")), "{told}");

    // Their places are free again.
    let mut next = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    say(&mut next, &frame(b"\x01\x01\x00k"))?;
    assert_eq!(answer(&mut next)?, (0, value));
    server.child.kill()?;
    server.child.wait()?;
    Ok(())
}

#[test]
fn full_card_refuses_client_and_names_the_option() -> Result<()> {
    // Each card has 8768 bytes for objects: a terminus, a queue and 64 slots. Clients that only
    // listen take one slot of their card and two of the server's.
    let lab = lab(2, &["--sram", "10368"])?;
    let mut server = Program::start(&lab, 0, &["serve"])?;
    let manager = Manager::create(&at(&lab, 1)?)?;
    let mut first = client(&manager, &mut server)?.map_err(anyhow::Error::msg)?;
    let mut listening = Vec::new();
    let reason = loop {
        let receiver = StreamReceiver::create_with(&manager, OPTIONS)?;
        match server.ask(&receiver.make_seed()?.to_string())? {
            Ok(_) => listening.push(receiver),
            Err(reason) => break reason,
        }
    };
    let full = "cannot open a slot: card memory full: needs 128 bytes in one piece, 0 of 8768 are free (longest piece 0): \
                close some, or give the card more memory (hamlyn card --sram)";
    assert_eq!((reason.as_str(), listening.len()), (full, 31));
    say(&mut first, &frame(b"\x01\x01\x00k"))?;
    assert_eq!(answer(&mut first)?, (1, vec![]), "those who are in are served");
    server.child.kill()?;
    server.child.wait()?;
    Ok(())
}
