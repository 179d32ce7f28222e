//! One-way bandwidth of a TCP connection, in the same laps as through cards.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;

use crate::engine::laps::{Laps, Sum};
use crate::engine::result::{Meter, Outcome, say};
use crate::engine::wait::PATIENCE;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Address on which the sink listens
    #[arg(long)]
    address: SocketAddr,
    #[command(flatten)]
    laps: Laps,
}

/// The receiver's reports: all bytes have arrived, and all of them are correct.
const THERE: [u8; 1] = [1];
const RIGHT: [u8; 1] = [2];

pub(crate) fn sink(options: &Options) -> Outcome {
    let laps = options.laps;
    let listener = TcpListener::bind(options.address)?;
    say(&json!({ "ready": true }))?;
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // The second word must not wait for the acknowledgement of the first.
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; laps.bytes()];
    let mut sum = Sum::default();
    for lap in laps.laps() {
        let meter = Meter::start();
        for message in lap.messages.clone() {
            let place = laps.place(message);
            stream.read_exact(&mut buffer[place..place + laps.size])?;
        }
        sum.add(&lap, meter);
        stream.write_all(&THERE)?;
        laps.check(&lap, |at, bytes| {
            bytes.copy_from_slice(&buffer[at..at + bytes.len()]);
            Ok(())
        })?;
        stream.write_all(&RIGHT)?;
    }
    say(&json!({ "messages": laps.count, "cpu_ns": sum.cpu_ns }))
}

pub(crate) fn send(options: &Options) -> Outcome {
    let laps = options.laps;
    let mut stream = TcpStream::connect(options.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; laps.bytes()];
    let mut sum = Sum::default();
    for lap in laps.laps() {
        laps.fill(&lap, |at, bytes| {
            buffer[at..at + bytes.len()].copy_from_slice(bytes);
            Ok(())
        })?;
        let meter = Meter::start();
        for message in lap.messages.clone() {
            let place = laps.place(message);
            stream.write_all(&buffer[place..place + laps.size])?;
        }
        hear(&mut stream, THERE)?;
        sum.add(&lap, meter);
        hear(&mut stream, RIGHT)?;
    }
    let bytes = laps.count * laps.size as u64;
    say(&json!({ "bytes": bytes, "messages": laps.count, "ns": sum.ns, "cpu_ns": sum.cpu_ns }))
}

fn hear(stream: &mut TcpStream, expected: [u8; 1]) -> Outcome {
    let mut word = [0];
    stream.read_exact(&mut word)?;
    if word == expected { Ok(()) } else { Err("the receiver said something else than what was due".into()) }
}
