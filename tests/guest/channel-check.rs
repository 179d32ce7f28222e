//! Checks the guarantees of a channel on each card model. Run `channel-check serve` on one machine
//! and `channel-check run HOST` on another.
//!
//! Each case opens a channel, whose first message names the case to the server.

use std::error::Error as AnyError;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::process::{Child, Command};
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use hamlyn::channel::{Card, Channel, Listener, Options, Receiver, Sender};
use hamlyn::{EndReason, Error, PeerLoss, Polling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;

type Outcome<T = ()> = Result<T, Box<dyn AnyError>>;

const NAME: &str = "channel-check";
/// Number of messages in the long cases, and number of bytes in the stream.
const MESSAGES: u64 = 5_000;
const STREAM: usize = 1 << 20;
/// Longest message of the case with a large ring: several operations of any card.
const LARGE: u64 = 100_000;
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let card = Card::open_any()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => serve(&card),
        ["die"] => die(&card),
        ["run", host] => run(&card, host.parse()?, ""),
        ["run", host, word] => run(&card, host.parse()?, word),
        _ => Err("arguments: serve | run HOST [WORD]".into()),
    }
}

fn serve(card: &Card) -> Outcome {
    let listener = Listener::bind(card, NAME, Options::for_messages(LARGE))?;
    println!("{}", json!({ "listening": NAME, "model": card.model() }));
    loop {
        let mut channel = listener.accept()?;
        thread::spawn(move || {
            let case = channel.receiver.recv_timeout(LONG).ok().flatten().and_then(|case| case.to_vec().ok());
            let case = String::from_utf8(case.unwrap_or_default()).unwrap_or_default();
            if let Err(error) = answer(&case, channel) {
                println!("{}", json!({ "case": case, "error": error.to_string() }));
            }
        });
    }
}

/// Accepts a channel, sends a message, and aborts without closing.
fn die(card: &Card) -> Outcome {
    let listener = Listener::bind(card, "channel-check-dies", Options::default())?;
    let mut channel = listener.accept_timeout(LONG)?;
    channel.sender.send(b"last words")?;
    thread::sleep(SHORT);
    std::process::abort();
}

/// Returns the message with this number.
fn message(number: u64, longest: usize) -> Vec<u8> {
    let length = (number * 7919 % (longest as u64 + 1)) as usize;
    (0..length).map(|at| (number as usize + at * 31) as u8).collect()
}

/// Sends numbered messages, most of them short.
fn send_all(sender: &mut Sender) -> Outcome {
    let longest = sender.longest();
    for number in 0..MESSAGES {
        let longest = if number % 50 == 0 { longest } else { 300 };
        sender.send(&message(number, longest))?;
    }
    Ok(())
}

fn receive_all(receiver: &mut Receiver, longest: usize) -> Outcome {
    for number in 0..MESSAGES {
        let longest = if number % 50 == 0 { longest } else { 300 };
        let found = receiver.recv_timeout(LONG)?.ok_or("closed too early")?.to_vec()?;
        if found != message(number, longest) {
            return Err(format!("message {number} has other bytes, {} of them", found.len()).into());
        }
    }
    Ok(())
}

/// Runs the server's side of a case.
fn answer(case: &str, channel: Channel) -> Outcome {
    let Channel { mut sender, mut receiver } = channel;
    match case {
        "echo" => {
            while let Some(message) = receiver.recv()? {
                sender.send(&message.to_vec()?)?;
            }
            sender.close()?;
        }
        "flood" => {
            let longest = sender.longest();
            let sending = thread::spawn(move || {
                send_all(&mut sender).map(|()| sender).map_err(|error| error.to_string())
            });
            receive_all(&mut receiver, longest)?;
            let sender = sending.join().map_err(|_| "the sender panicked")??;
            sender.close()?;
        }
        "stall" => {
            thread::sleep(5 * SHORT);
            let mut count = 0_u64;
            while receiver.recv_timeout(LONG)?.is_some() {
                count += 1;
            }
            sender.send(&count.to_le_bytes())?;
            sender.close()?;
        }
        "late" => {
            thread::sleep(2 * SHORT);
            sender.send(b"late")?;
            sender.close()?;
        }
        "stream" => {
            let mut bytes = vec![0; STREAM];
            receiver.read_exact(&mut bytes)?;
            sender.write_all(&bytes)?;
            sender.close()?;
        }
        "abandon" => sender.send(b"before")?,
        "leave" => {
            drop(receiver);
            thread::sleep(5 * SHORT);
            sender.close()?;
        }
        other => return Err(format!("no case {other:?}").into()),
    }
    Ok(())
}

type Case = fn(&Card, u32) -> Outcome;

const CASES: &[(&str, Case)] = &[
    ("messages of all lengths come back", lengths),
    ("a batch is sent with one flush", batch),
    ("delivery of each message is told", delivered),
    ("room that is dropped sends nothing", dropped_room),
    ("both directions at once keep order and bytes", flood),
    ("both directions of a large ring at once", large),
    ("a full channel says so and loses nothing", full),
    ("a sleeper is woken", late),
    ("an event loop waits for several channels", looped),
    ("an event loop learns of room", room_in_loop),
    ("bytes as a stream", stream),
    ("an end without close is told", abandoned),
    ("a receiver that leaves is told", left),
    ("a process that dies is told after its last message", died),
    ("an event loop learns of a process that died", died_in_loop),
    ("a name that no listener has is told", absent),
    ("a longer message than fits is refused", too_long),
];

/// Runs the cases whose name contains `word`.
fn run(card: &Card, host: u32, word: &str) -> Outcome {
    for (name, case) in CASES.iter().filter(|(name, _)| name.contains(word)) {
        case(card, host).map_err(|error| format!("{name}: {error}"))?;
        println!("{}", json!({ "case": name }));
    }
    let is_express = open(card, host, "echo")?.is_express();
    println!("{}", json!({ "cases": CASES.len(), "model": card.model(), "express": is_express }));
    Ok(())
}

fn open(card: &Card, host: u32, case: &str) -> Outcome<Channel> {
    open_with(card, host, case, Options::default())
}

fn open_with(card: &Card, host: u32, case: &str, options: Options) -> Outcome<Channel> {
    let begun = Instant::now();
    let mut channel = loop {
        match Channel::connect_timeout(card, host, NAME, options, LONG) {
            // The express memory of the case before is the user's until the server has closed, too.
            Err(Error::System { source, .. })
                if source.raw_os_error() == Some(Errno::DQUOT.raw_os_error()) && begun.elapsed() < LONG =>
            {
                thread::sleep(SHORT / 10);
            }
            channel => break channel?,
        }
    };
    channel.sender.send(case.as_bytes())?;
    Ok(channel)
}

fn expect(is: bool, what: &str) -> Outcome {
    if is { Ok(()) } else { Err(what.into()) }
}

fn lengths(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "echo")?;
    let longest = sender.longest();
    for length in [0, 1, 4, 7, 8, 9, 24, 31, 32, 33, 255, 256, 257, 4096, 10_000, longest - 1, longest] {
        let sent: Vec<u8> = (0..length).map(|at| (at * 7 + length) as u8).collect();
        sender.send(&sent)?;
        let came = receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
        expect(came == sent, &format!("{length} bytes came back as {} others", came.len()))?;
    }
    sender.close()?;
    expect(receiver.recv_timeout(LONG)?.is_none(), "a message after the end")
}

fn batch(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "echo")?;
    for number in 0..10_u8 {
        let mut room = sender.reserve(3)?;
        room.write(0, &[number; 3])?;
        room.put()?;
    }
    sender.flush_timeout(LONG)?;
    for number in 0..10_u8 {
        let came = receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
        expect(came == [number; 3], &format!("message {number} is {came:?}"))?;
    }
    Ok(sender.close()?)
}

fn delivered(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "echo")?;
    let mut last = sender.sent();
    for number in 0..100_u8 {
        sender.send(&[number; 100])?;
        expect(sender.sent() > last, "the position of a message is not behind that of the one before")?;
        last = sender.sent();
        // Asking for it at once leaves an answer to come, which must not be taken for the next.
        match sender.try_delivered(last) {
            Err(error) if !error.is_would_block() => return Err(error.into()),
            _ => sender.delivered_timeout(last, LONG)?,
        }
        sender.try_delivered(last)?;
    }
    expect(sender.try_delivered(last + 1).is_err(), "more was delivered than was sent")?;
    for number in 0..100_u8 {
        let came = receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
        expect(came == [number; 100], &format!("message {number} is {came:?}"))?;
    }
    Ok(sender.close()?)
}

fn dropped_room(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "echo")?;
    sender.reserve(100)?.write(0, b"not sent")?;
    let room = sender.reserve(2)?;
    room.cells().iter().zip(*b"in").for_each(|(cell, byte)| cell.store(byte, Relaxed));
    room.commit()?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"in", "other bytes came")?;
    let nothing = receiver.try_recv().err().is_some_and(|error| error.is_would_block());
    expect(nothing, "something came that was not sent")?;
    Ok(sender.close()?)
}

fn flood(card: &Card, host: u32) -> Outcome {
    both_ways(open(card, host, "flood")?)
}

fn large(card: &Card, host: u32) -> Outcome {
    let channel = open_with(card, host, "flood", Options::for_messages(LARGE))?;
    expect(channel.sender.longest() as u64 >= LARGE, "the listener has a smaller ring")?;
    both_ways(channel)
}

fn both_ways(Channel { mut sender, mut receiver }: Channel) -> Outcome {
    let longest = sender.longest();
    let sending =
        thread::spawn(move || send_all(&mut sender).map(|()| sender).map_err(|error| error.to_string()));
    receive_all(&mut receiver, longest)?;
    sending.join().map_err(|_| "the sender panicked")??.close()?;
    expect(receiver.recv_timeout(LONG)?.is_none(), "a message after the end")
}

fn full(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "stall")?;
    let (message, mut count) = ([5; 1000], 0_u64);
    loop {
        match sender.try_send(&message) {
            Ok(()) => count += 1,
            Err(error) if error.is_would_block() => break,
            Err(error) => return Err(error.into()),
        }
        expect(count < 100_000, "a channel that is never full")?;
    }
    expect(sender.bytes_behind()? > 0, "a receiver that reads nothing is not behind")?;
    match sender.send_timeout(&message, Duration::from_millis(10)) {
        Ok(()) => count += 1,
        Err(error) => expect(error.is_timed_out(), &error.to_string())?,
    }
    sender.send_timeout(&message, LONG)?;
    sender.close()?;
    let came = receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
    expect(came == (count + 1).to_le_bytes(), &format!("{count} and 1 were sent, and {came:?} came"))
}

fn late(card: &Card, host: u32) -> Outcome {
    let Channel { sender, mut receiver } = open(card, host, "late")?;
    let early =
        receiver.recv_timeout(Duration::from_millis(1)).err().is_some_and(|error| error.is_timed_out());
    expect(early, "a message that was not sent")?;
    expect(receiver.recv()?.ok_or("closed")?.to_vec()? == b"late", "other bytes came")?;
    Ok(sender.close()?)
}

/// Waits for one of these files.
fn poll_files(files: &[BorrowedFd<'_>]) -> Outcome {
    let mut polled: Vec<_> =
        files.iter().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    let count = poll(&mut polled, Some(&Timespec::try_from(LONG)?))?;
    expect(count > 0, "no file is readable in time")
}

/// Receives the next message of one of these channels, in a loop that waits for all.
fn next_of(receivers: &mut [Receiver]) -> Outcome<(usize, Option<Vec<u8>>)> {
    loop {
        let mut is_ready = false;
        for (number, receiver) in receivers.iter_mut().enumerate() {
            match receiver.try_recv() {
                Err(error) if error.is_would_block() => {}
                message => return Ok((number, message?.map(|message| message.to_vec()).transpose()?)),
            }
            is_ready |= receiver.arm()?;
        }
        if !is_ready {
            let files = receivers.iter_mut().map(Receiver::file).collect::<Result<Vec<_>, _>>()?;
            poll_files(&files)?;
        }
    }
}

fn looped(card: &Card, host: u32) -> Outcome {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let Channel { sender, mut receiver } = open(card, host, "echo")?;
        receiver.set_polling(Polling::NEVER);
        senders.push(sender);
        receivers.push(receiver);
    }
    for step in 0..300_usize {
        let sent = message(step as u64, 300);
        senders[step * 7 % 3].send(&sent)?;
        if step % 100 == 0 {
            thread::sleep(SHORT / 10);
        }
        let (number, came) = next_of(&mut receivers)?;
        expect(number == step * 7 % 3 && came == Some(sent), &format!("message {step} is another"))?;
    }
    for _ in 0..senders.len() {
        senders.remove(0).close()?;
        let (number, end) = next_of(&mut receivers)?;
        expect(number == 0 && end.is_none(), "the end is told by another channel")?;
        receivers.remove(0);
    }
    Ok(())
}

fn room_in_loop(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "stall")?;
    sender.set_polling(Polling::NEVER);
    let mut sleeps = 0;
    for _ in 0..200 {
        while sender.try_send(&[5; 1000]).is_err_and(|error| error.is_would_block()) {
            if !sender.arm(1000)? {
                sleeps += 1;
                poll_files(&[sender.file()?])?;
            }
        }
    }
    sender.close()?;
    let came = receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()?;
    expect(came == 200_u64.to_le_bytes(), &format!("200 were sent, and {came:?} came"))?;
    expect(sleeps > 0, "a loop that sends more than there is room for does not sleep")
}

fn stream(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "stream")?;
    let sent: Vec<u8> = (0..STREAM).map(|at| (at % 251) as u8).collect();
    sender.write_all(&sent)?;
    sender.flush()?;
    let mut came = Vec::new();
    receiver.read_to_end(&mut came)?;
    expect(came == sent, &format!("{} other bytes came back", came.len()))?;
    Ok(sender.close()?)
}

fn abandoned(card: &Card, host: u32) -> Outcome {
    let Channel { sender: _sender, mut receiver } = open(card, host, "abandon")?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"before", "other bytes came")?;
    match receiver.recv_timeout(LONG) {
        Err(Error::PeerLost(PeerLoss::Abandoned)) => Ok(()),
        other => Err(format!("the receiver gets {other:?}").into()),
    }
}

fn left(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, receiver: _receiver } = open(card, host, "leave")?;
    for _ in 0..1000 {
        match sender.send_timeout(&[0; 1000], LONG) {
            Ok(()) => {}
            Err(Error::PeerLost(PeerLoss::Abandoned)) => return Ok(()),
            other => return Err(format!("the sender gets {other:?}").into()),
        }
    }
    Err("a receiver that has left takes all".into())
}

/// Starts the dying process on this machine's own host, which a card also reaches, and receives its
/// message.
fn dying(card: &Card) -> Outcome<(Child, Channel)> {
    let own = card.host()?.ok_or("the link is down")?;
    let child = Command::new(std::env::current_exe()?).arg("die").spawn()?;
    let mut channel = loop {
        match Channel::connect_timeout(card, own, "channel-check-dies", Options::default(), LONG) {
            Err(Error::Ended(end)) if end.reason == EndReason::NoName => thread::sleep(SHORT / 10),
            other => break other?,
        }
    };
    expect(channel.receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"last words", "other bytes")?;
    Ok((child, channel))
}

fn died_in_loop(card: &Card, _host: u32) -> Outcome {
    let (mut child, channel) = dying(card)?;
    let told = next_of(&mut [channel.receiver]);
    child.wait()?;
    match told {
        Err(error) if matches!(error.downcast_ref(), Some(Error::PeerLost(PeerLoss::Process))) => Ok(()),
        other => Err(format!("the loop gets {other:?}").into()),
    }
}

fn died(card: &Card, _host: u32) -> Outcome {
    let (mut child, mut channel) = dying(card)?;
    let told = channel.receiver.recv_timeout(LONG);
    let is_told = matches!(told, Err(Error::PeerLost(PeerLoss::Process)));
    let text = format!("the receiver gets {told:?}");
    child.wait()?;
    expect(is_told, &text)?;
    loop {
        match channel.sender.send_timeout(&[0; 1000], LONG) {
            Ok(()) => {}
            Err(Error::PeerLost(PeerLoss::Process)) => return Ok(()),
            other => return Err(format!("the sender gets {other:?}").into()),
        }
    }
}

fn absent(card: &Card, host: u32) -> Outcome {
    match Channel::connect_timeout(card, host, "channel-check-absent", Options::default(), LONG) {
        Err(Error::Ended(end)) if end.reason == EndReason::NoName => {}
        other => return Err(format!("to connect gives {other:?}").into()),
    }
    match Channel::connect_any_timeout(card, "channel-check-absent", Options::default(), LONG) {
        Err(Error::Ended(end)) if end.reason == EndReason::NoName => Ok(()),
        other => Err(format!("to connect to any gives {other:?}").into()),
    }
}

fn too_long(card: &Card, host: u32) -> Outcome {
    let Channel { mut sender, mut receiver } = open(card, host, "echo")?;
    let longest = sender.longest();
    let refused = sender.send(&vec![0; longest + 1]).err().ok_or("it was taken")?;
    expect(refused.to_string().contains(&longest.to_string()), &refused.to_string())?;
    sender.send(b"and on")?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"and on", "other bytes came")?;
    Ok(sender.close()?)
}
