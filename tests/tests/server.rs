//! The server of docs/programming.md with all its clients, including misbehaving ones: no machine,
//! two or three cards.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hamlyn::ErrorKind;
use hamlyn::channel::{Card, Channel, Options};
use hamlyn_lab::{Kit, Lab};
use serde_json::Value;

/// No wait in these tests takes this long.
const WATCHDOG: Duration = Duration::from_secs(600);

/// A program at a card.
struct Program {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(lab: &Lab, card: usize, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(Kit::find()?.program("examples/kv-server")?)
            .args(arguments)
            .env("HAMLYN_CARD", node(lab, card)?)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { child, output })
    }

    /// Starts a server, which is ready to be found.
    fn serve(lab: &Lab, arguments: &[&str]) -> Result<Self> {
        let mut server = Self::start(lab, 0, &[&["serve"], arguments].concat())?;
        let ready = server.answer()?;
        ensure!(ready["listening"] == "kv", "{ready}");
        Ok(server)
    }

    fn answer(&mut self) -> Result<Value> {
        Ok(serde_json::from_str(&self.output.next().context("the program said no more")??)?)
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

fn lab(cards: usize, arguments: &[&str]) -> Result<Lab> {
    Lab::builder().vms(0).spare_cards(cards).one_process(true).card_args(arguments.iter().copied()).start()
}

/// Returns the name of a card's socket.
fn node(lab: &Lab, card: usize) -> Result<String> {
    Ok(format!("vfio-user:{}", lab.card_socket(card)?.display()))
}

#[test]
fn one_thread_serves_a_thousand_clients() -> Result<()> {
    // A channel has two queues and two slots at each end, and eight have a terminus.
    let lab = lab(2, &["--queues", "2048", "--termini", "128", "--sram", "1048576"])?;
    let server = Program::serve(&lab, &["--until", "1000"])?;
    // Each answer is checked, and there are two for each client.
    let asked = ["crowd", "--clients", "1000", "--requests", "2000", "--size", "100"];
    let crowd = Program::start(&lab, 1, &asked)?;
    let result = crowd.finish().with_context(|| log_of(&lab))?;
    assert_eq!((result["messages"].as_u64(), result["all"].as_u64()), (Some(2000), Some(3000)));
    assert_eq!(server.finish()?["served"], 1000);
    Ok(())
}

/// A sleeping server is notified when its card's process exits, and exits, too.
#[test]
fn server_exits_with_its_card() -> Result<()> {
    let lab = lab(2, &[])?;
    let mut server = Program::serve(&lab, &["--until", "1000"])?;
    let mut client = Client::connect(&card(&lab, 1)?)?;
    client.say(&frame(b"\x01\x01\x00k"))?;
    // The answer shows that the server is ready; then it sleeps.
    assert_eq!(client.answer()?, (1, vec![]));
    drop(lab);
    let begun = Instant::now();
    while server.child.try_wait()?.is_none() {
        ensure!(begun.elapsed() < WATCHDOG, "it sleeps on");
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

#[test]
fn value_longer_than_the_ring_is_transferred() -> Result<()> {
    let lab = lab(2, &[])?;
    for ask in ["get", "put"] {
        let server = Program::serve(&lab, &["--until", "3"])?;
        let asked = ["crowd", "--clients", "3", "--requests", "6", "--size", "1048576", "--ask", ask];
        assert_eq!(Program::start(&lab, 1, &asked)?.finish()?["bytes"], 6 << 20);
        server.finish()?;
    }
    Ok(())
}

/// Opens a card in this process.
fn card(lab: &Lab, card: usize) -> Result<Card> {
    Ok(Card::open(Path::new(&node(lab, card)?))?)
}

/// A client in this test.
struct Client {
    channel: Channel,
    /// Bytes that are not read so far.
    rest: Vec<u8>,
}

impl Client {
    fn connect(card: &Card) -> hamlyn::Result<Self> {
        let channel = Channel::connect_timeout(card, 0, "kv", Options::for_messages(4000), WATCHDOG)?;
        Ok(Self { channel, rest: Vec::new() })
    }

    fn say(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.channel.sender.write_all(bytes)?)
    }

    /// Returns the next answer: its status, and its text.
    fn answer(&mut self) -> Result<(u8, Vec<u8>)> {
        let head = self.take(4)?;
        let length = u32::from_le_bytes(head.try_into().map_err(|_| anyhow::anyhow!("no answer"))?);
        let mut bytes = self.take(length as usize)?;
        let text = bytes.split_off(1);
        Ok((bytes[0], text))
    }

    fn take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.rest.len() < length {
            let message = self.channel.receiver.recv_timeout(WATCHDOG)?;
            self.rest.extend(message.context("half an answer")?.to_vec()?);
        }
        let rest = self.rest.split_off(length);
        Ok(std::mem::replace(&mut self.rest, rest))
    }

    /// Returns whether the server has closed after its last answer.
    fn is_closed(&mut self) -> Result<bool> {
        Ok(self.channel.receiver.recv_timeout(WATCHDOG)?.is_none())
    }
}

fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes(), bytes].concat()
}

#[test]
fn misbehaving_clients_do_not_affect_other_clients() -> Result<()> {
    let lab = lab(2, &[])?;
    let mut server = Program::serve(&lab, &["--clients", "4", "--patience", "3000"])?;
    let card = card(&lab, 1)?;
    let mut sound = Client::connect(&card)?;
    let mut malformed = Client::connect(&card)?;
    let mut slow = Client::connect(&card)?;
    let mut dead = Client::connect(&card)?;
    let mut refused = Client::connect(&card)?;
    let reason = "4 of 4 clients are being served: come again later";
    assert_eq!(refused.answer()?, (2, reason.into()));
    assert!(refused.is_closed()?, "that was the last answer");
    assert_eq!(server.answer()?["refused"], reason);

    // The value is longer than a channel's ring, so that an answer with it blocks until the client
    // reads it.
    let value = vec![7; 100_000];
    sound.say(&frame(&[b"\x02\x01\x00k", &value[..]].concat()))?;
    assert_eq!(sound.answer()?, (0, vec![]));

    malformed.say(&frame(b"\x09\x00\x00"))?;
    assert_eq!(malformed.answer()?, (2, b"request 9, with 0 bytes behind the key".to_vec()));
    assert!(malformed.is_closed()?, "that was the last answer");
    let told = server.answer()?;
    assert_eq!((&told["client"], &told["answered"]), (&1.into(), &0.into()));

    for _ in 0..3 {
        slow.say(&frame(b"\x01\x01\x00k"))?;
    }
    // Half a request.
    dead.say(&frame(b"\x01\x01\x00k")[..6])?;
    sound.say(&frame(b"\x01\x01\x00k"))?;
    assert_eq!(sound.answer()?, (0, value.clone()), "another's answers are not waited for");
    let told = server.answer()?;
    assert_eq!((&told["client"], &told["ended"]), (&2.into(), &"it took no answer for 3s".into()));
    let lost = loop {
        match slow.channel.receiver.recv_timeout(WATCHDOG) {
            Ok(Some(_)) => {}
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
    let mut next = Client::connect(&card)?;
    next.say(&frame(b"\x01\x01\x00k"))?;
    assert_eq!(next.answer()?, (0, value));
    Ok(())
}

#[test]
fn full_card_refuses_client_and_names_the_option() -> Result<()> {
    // Each card has 18560 bytes for objects, of which names take 8768. The clients are at two
    // cards, so the server's is full before theirs.
    let lab = lab(3, &["--sram", "20480"])?;
    let mut server = Program::serve(&lab, &[])?;
    let cards = [card(&lab, 1)?, card(&lab, 2)?];
    let mut clients = Vec::new();
    let rejected = loop {
        match Client::connect(&cards[clients.len() % 2]) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
    };
    let full = "cannot open a slot: card memory full: needs 128 bytes in one piece, 0 of 18560 are free (longest piece 0): \
                close some, or give the card more memory (hamlyn card --sram)";
    assert_eq!((server.answer()?["refused"].as_str(), clients.len()), (Some(full), 20));
    assert!(rejected.to_string().contains(full), "{rejected}");
    clients[0].say(&frame(b"\x01\x01\x00k"))?;
    assert_eq!(clients[0].answer()?, (1, vec![]), "earlier clients are still served");
    Ok(())
}
