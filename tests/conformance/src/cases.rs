//! The cases, at the end that connects.

use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::process::Child;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use hamlyn::channel::{Channel, Options, Receiver};
use hamlyn::{EndReason, Error, PeerLoss, Polling};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::messages::{message, receive_all, send_all};
use crate::{DYING, LARGE, LONG, NAME, Outcome, Place, SHORT, STREAM};

pub(crate) type Case = fn(&Place) -> Outcome;

/// All cases, by what they promise.
pub(crate) const CASES: &[(&str, Case)] = &[
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
    ("a name that no listener has is told", absent),
    ("a longer message than fits is refused", too_long),
];

/// Cases that need a second process at the card.
pub(crate) const WITH_PROCESS: &[(&str, Case)] = &[
    ("a process that dies is told after its last message", died),
    ("an event loop learns of a process that died", died_in_loop),
];

pub(crate) fn open(at: &Place, case: &str) -> Outcome<Channel> {
    open_with(at, case, Options::default())
}

fn open_with(at: &Place, case: &str, options: Options) -> Outcome<Channel> {
    let begun = Instant::now();
    let mut channel = loop {
        match Channel::connect_timeout(&at.card, at.host, NAME, options, LONG) {
            Err(error) if is_over_quota(&error) && begun.elapsed() < LONG => thread::sleep(SHORT / 10),
            channel => break channel?,
        }
    };
    channel.sender.send(case.as_bytes())?;
    Ok(channel)
}

/// Returns whether one of the two users may have no more express memory now. That of the case
/// before is theirs until both ends have closed.
pub(crate) fn is_over_quota(error: &Error) -> bool {
    match error {
        Error::System { source, .. } => source.raw_os_error() == Some(Errno::DQUOT.raw_os_error()),
        Error::Ended(end) => {
            end.reason == EndReason::Rejected
                && String::from_utf8_lossy(&end.private).contains("quota exceeded")
        }
        _ => false,
    }
}

fn expect(is: bool, what: &str) -> Outcome {
    if is { Ok(()) } else { Err(what.into()) }
}

fn lengths(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "echo")?;
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

fn batch(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "echo")?;
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

fn delivered(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "echo")?;
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

fn dropped_room(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "echo")?;
    sender.reserve(100)?.write(0, b"not sent")?;
    let room = sender.reserve(2)?;
    room.cells().iter().zip(*b"in").for_each(|(cell, byte)| cell.store(byte, Relaxed));
    room.commit()?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"in", "other bytes came")?;
    let nothing = receiver.try_recv().err().is_some_and(|error| error.is_would_block());
    expect(nothing, "something came that was not sent")?;
    Ok(sender.close()?)
}

fn flood(at: &Place) -> Outcome {
    both_ways(open(at, "flood")?)
}

fn large(at: &Place) -> Outcome {
    let channel = open_with(at, "flood", Options::for_messages(LARGE))?;
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

fn full(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "stall")?;
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

fn late(at: &Place) -> Outcome {
    let Channel { sender, mut receiver } = open(at, "late")?;
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

fn looped(at: &Place) -> Outcome {
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let Channel { sender, mut receiver } = open(at, "echo")?;
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

fn room_in_loop(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "stall")?;
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

fn stream(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "stream")?;
    let sent: Vec<u8> = (0..STREAM).map(|at| (at % 251) as u8).collect();
    sender.write_all(&sent)?;
    sender.flush()?;
    let mut came = Vec::new();
    receiver.read_to_end(&mut came)?;
    expect(came == sent, &format!("{} other bytes came back", came.len()))?;
    Ok(sender.close()?)
}

fn abandoned(at: &Place) -> Outcome {
    let Channel { sender: _sender, mut receiver } = open(at, "abandon")?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"before", "other bytes came")?;
    match receiver.recv_timeout(LONG) {
        Err(Error::PeerLost(PeerLoss::Abandoned)) => Ok(()),
        other => Err(format!("the receiver gets {other:?}").into()),
    }
}

fn left(at: &Place) -> Outcome {
    let Channel { mut sender, receiver: _receiver } = open(at, "leave")?;
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
fn dying(at: &Place) -> Outcome<(Child, Channel)> {
    let own = at.card.host()?.ok_or("the link is down")?;
    let child = (at.second.ok_or("no second process")?)()?;
    let mut channel = loop {
        match Channel::connect_timeout(&at.card, own, DYING, Options::default(), LONG) {
            Err(Error::Ended(end)) if end.reason == EndReason::NoName => thread::sleep(SHORT / 10),
            other => break other?,
        }
    };
    expect(channel.receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"last words", "other bytes")?;
    Ok((child, channel))
}

fn died_in_loop(at: &Place) -> Outcome {
    let (mut child, channel) = dying(at)?;
    let told = next_of(&mut [channel.receiver]);
    child.wait()?;
    match told {
        Err(error) if matches!(error.downcast_ref(), Some(Error::PeerLost(PeerLoss::Process))) => Ok(()),
        other => Err(format!("the loop gets {other:?}").into()),
    }
}

fn died(at: &Place) -> Outcome {
    let (mut child, mut channel) = dying(at)?;
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

fn absent(at: &Place) -> Outcome {
    match Channel::connect_timeout(&at.card, at.host, "channel-check-absent", Options::default(), LONG) {
        Err(Error::Ended(end)) if end.reason == EndReason::NoName => {}
        other => return Err(format!("to connect gives {other:?}").into()),
    }
    match Channel::connect_any_timeout(&at.card, "channel-check-absent", Options::default(), LONG) {
        Err(Error::Ended(end)) if end.reason == EndReason::NoName => Ok(()),
        other => Err(format!("to connect to any gives {other:?}").into()),
    }
}

fn too_long(at: &Place) -> Outcome {
    let Channel { mut sender, mut receiver } = open(at, "echo")?;
    let longest = sender.longest();
    let refused = sender.send(&vec![0; longest + 1]).err().ok_or("it was taken")?;
    expect(refused.to_string().contains(&longest.to_string()), &refused.to_string())?;
    sender.send(b"and on")?;
    expect(receiver.recv_timeout(LONG)?.ok_or("closed")?.to_vec()? == b"and on", "other bytes came")?;
    Ok(sender.close()?)
}
