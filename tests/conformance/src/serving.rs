//! The cases, at the end that listens.

use std::io::{Read, Write};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use hamlyn::channel::{Card, Channel, Listener, Options};
use hamlyn::{Error, PeerLoss};

use crate::cases::is_over_quota;
use crate::messages::{receive_all, send_all};
use crate::{DYING, LARGE, LONG, NAME, Outcome, SHORT, STREAM};

/// Serves all cases until the listener fails. Calls `ready` once peers can connect, and `report`
/// with a case and what its end here has to say: an error, or for [`crate::hold`] the losses. Then
/// all cases have ended.
///
/// # Errors
/// Those of the listener.
pub fn serve(
    card: &Card,
    ready: impl FnOnce(),
    report: impl Fn(&str, &str) + Clone + Send + 'static,
) -> Outcome {
    let listener = Listener::bind(card, NAME, Options::for_messages(LARGE))?;
    ready();
    let mut cases = Vec::new();
    loop {
        let mut channel = match listener.accept() {
            Ok(channel) => channel,
            // The peer's request was rejected, and it asks again.
            Err(error) if is_over_quota(&error) => continue,
            Err(error) => {
                cases.into_iter().try_for_each(JoinHandle::join).map_err(|_| "a case panicked")?;
                return Err(error.into());
            }
        };
        let report = report.clone();
        cases.retain(|case: &JoinHandle<()>| !case.is_finished());
        cases.push(thread::spawn(move || {
            let case = channel.receiver.recv_timeout(LONG).ok().flatten().and_then(|case| case.to_vec().ok());
            let case = String::from_utf8(case.unwrap_or_default()).unwrap_or_default();
            match answer(&case, channel) {
                Ok(None) => {}
                Ok(Some(losses)) => report(&case, &format!("{losses:?}")),
                Err(error) => report(&case, &error.to_string()),
            }
        }));
    }
}

/// Waits until the peer is lost, and returns how receiver and sender report that.
pub(crate) fn losses(channel: Channel) -> Outcome<[PeerLoss; 2]> {
    let Channel { mut sender, mut receiver } = channel;
    let begun = Instant::now();
    let received = loop {
        match receiver.recv_timeout(LONG) {
            Err(Error::PeerLost(loss)) => break loss,
            // The other end knows of the loss, and tries its sender.
            Ok(Some(_)) if begun.elapsed() < LONG => {}
            other => return Err(format!("the receiver gets {other:?}").into()),
        }
    };
    loop {
        match sender.send_timeout(&[0; 1000], LONG) {
            Err(Error::PeerLost(loss)) => return Ok([received, loss]),
            Ok(()) if begun.elapsed() < LONG => {}
            other => return Err(format!("the sender gets {other:?}").into()),
        }
    }
}

/// Accepts a channel, sends a message, and aborts without closing.
///
/// # Errors
/// Those of the listener and of the sender.
pub fn die(card: &Card) -> Outcome {
    let listener = Listener::bind(card, DYING, Options::default())?;
    let mut channel = listener.accept_timeout(LONG)?;
    channel.sender.send(b"last words")?;
    thread::sleep(SHORT);
    std::process::abort();
}

/// Runs the server's side of a case. Returns the losses of a channel that is held.
fn answer(case: &str, channel: Channel) -> Outcome<Option<[PeerLoss; 2]>> {
    let Channel { mut sender, mut receiver } = channel;
    if case == "hold" {
        // It may arrive, and the loss still come before this returns.
        let _ = sender.send(b"held");
        return losses(Channel { sender, receiver }).map(Some);
    }
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
    Ok(None)
}
