//! The paper's programs of section 4.3 between two machines: an early Tripwire, separate header and
//! body, a stream of bytes.

use std::sync::Arc;

use hamlyn::Polling;
use hamlyn::clan::programs::{End, headed, stream, transfer};
use hamlyn::clan::{Address, Card, Endpoint, Rights};
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::desk::PATIENCE;

const PORT: u32 = 1600;
/// Bytes of each end's memory.
const LENGTH: usize = 4096;
/// Lengths of messages, including the longest.
const MESSAGES: [usize; 5] = [1, 7, 8, 3000, LENGTH - 64];
/// Bytes of a header.
const HEADER: usize = 16;
/// Bytes sent through the stream.
const STREAM: usize = 50_000;

/// Returns the bytes that are sent for `seed`.
fn pattern(seed: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill_pattern(seed as u64, 0, &mut bytes);
    bytes
}

fn check(seed: usize, bytes: &[u8]) -> Outcome {
    match find_difference(seed as u64, 0, bytes) {
        Some(at) => Err(format!("byte {at} of {} is another", bytes.len()).into()),
        None => Ok(()),
    }
}

/// Receives from three ends, one program each.
pub(crate) fn receive(card: &Card) -> Outcome {
    let listener = sleeping(card, PORT)?;
    print(&json!({ "listening": PORT }))?;
    let early = receive_early(&accept(card, &listener)?)?;
    let apart = receive_headed(&accept(card, &listener)?)?;
    let stream = receive_stream(&accept(card, &listener)?)?;
    print(&json!({ "early": early, "apart": apart, "stream": stream }))
}

/// Opens an endpoint whose owner sleeps at once, so that the Tripwires wake it.
fn sleeping(card: &Card, port: u32) -> Outcome<Endpoint> {
    Ok(card.endpoint_builder().port(port).polling(Polling::NEVER).open()?)
}

fn accept(card: &Card, listener: &Endpoint) -> Outcome<Arc<End>> {
    let own = card.aperture(LENGTH, Rights::Write)?;
    Ok(Arc::new(
        End::accept(listener.accept_timeout(PATIENCE)?, &sleeping(card, 0)?, own)?.with_timeout(PATIENCE),
    ))
}

/// Returns the number of messages for which the early Tripwire fired before the rest had arrived.
/// The sender sends the rest when it is told to.
fn receive_early(end: &Arc<End>) -> Outcome<usize> {
    let mut receiver = transfer::Receiver::new(end)?;
    receiver.set_early()?;
    // A write before the Tripwire is set would not fire it.
    tell(end)?;
    let (mut bytes, mut early) = (vec![0; LENGTH], 0);
    for length in MESSAGES {
        receiver.early().ok_or("the receiver has no early Tripwire")?.wait_timeout(PATIENCE)?;
        early += usize::from(receiver.try_recv()?.is_none());
        tell(end)?;
        let received = receiver.recv_into(&mut bytes)?;
        check(length, &bytes[..received])?;
        if received != length {
            return Err(format!("{received} bytes, not {length}").into());
        }
    }
    Ok(early)
}

/// Tells the other end to go on.
fn tell(end: &End) -> Outcome {
    Ok(end.connection().send(b"go on")?)
}

/// Returns the number of messages whose header arrived before the body. The sender sends the body
/// when it is told to.
fn receive_headed(end: &Arc<End>) -> Outcome<usize> {
    let mut receiver = headed::Receiver::new(end, HEADER)?;
    let (mut header, mut body, mut apart) = ([0; HEADER], vec![0; LENGTH], 0);
    for length in [0, 100, 3000] {
        let coming = receiver.header(&mut header)?;
        check(length, &header)?;
        apart += usize::from(!coming.is_complete()?);
        tell(end)?;
        let received = coming.body(&mut body)?;
        check(length, &body[..received])?;
        if received != length {
            return Err(format!("{received} bytes, not {length}").into());
        }
    }
    Ok(apart)
}

fn receive_stream(end: &Arc<End>) -> Outcome<usize> {
    let mut reader = stream::Reader::new(end)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut bytes)?;
    check(STREAM, &bytes)?;
    Ok(bytes.len())
}

/// Sends to the receiver at a host.
pub(crate) fn send(card: &Card, host: u32) -> Outcome {
    let end = connect(card, host)?;
    let mut sender = transfer::Sender::new(&end)?;
    end.connection().recv_timeout(PATIENCE)?;
    for length in MESSAGES {
        let free = sender.wait()?;
        free.write(0, &pattern(length, length))?;
        end.connection().recv_timeout(PATIENCE)?;
        free.send(length)?;
    }
    drop(sender);
    end.close()?;

    let end = connect(card, host)?;
    let mut sender = headed::Sender::new(&end, HEADER)?;
    for length in [0, 100, 3000] {
        let body = sender.send_header(&pattern(length, HEADER))?;
        end.connection().recv_timeout(PATIENCE)?;
        body.send(&pattern(length, length))?;
    }
    drop(sender);
    end.close()?;

    let end = connect(card, host)?;
    let mut writer = stream::Writer::new(&end)?;
    std::io::Write::write_all(&mut writer, &pattern(STREAM, STREAM))?;
    drop(writer);
    end.close()?;
    print(&json!({ "sent": true }))
}

fn connect(card: &Card, host: u32) -> Outcome<Arc<End>> {
    let own = card.aperture(LENGTH, Rights::Write)?;
    Ok(Arc::new(
        End::connect_timeout(&sleeping(card, 0)?, own, Address { host, port: PORT }, PATIENCE)?
            .with_timeout(PATIENCE),
    ))
}
