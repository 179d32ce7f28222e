//! One-way bandwidth of a TCP connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::json;

use crate::result::{Meter, say};
use crate::{Outcome, PATIENCE};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where the sink listens
    #[arg(long)]
    address: SocketAddr,
    /// Bytes of each write
    #[arg(long, default_value_t = 65536)]
    size: usize,
    /// Writes
    #[arg(long, default_value_t = 1000)]
    count: u64,
    /// Writes before them, which are not measured
    #[arg(long, default_value_t = 50)]
    warmup: u64,
}

impl Options {
    fn bytes(&self, messages: u64) -> u64 {
        messages * self.size as u64
    }
}

pub(crate) fn sink(options: &Options) -> Outcome {
    let listener = TcpListener::bind(options.address)?;
    say(&json!({ "ready": true }))?;
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = vec![0; options.size];
    let mut cpu_ns = 0;
    for messages in [options.warmup, options.count] {
        let meter = Meter::start();
        let mut left = options.bytes(messages);
        while left > 0 {
            let most = left.min(options.size as u64) as usize;
            let length = stream.read(&mut buffer[..most])?;
            if length == 0 {
                return Err(format!("the connection ended {left} bytes early").into());
            }
            left -= length as u64;
        }
        cpu_ns = meter.stop().1;
        stream.write_all(&[0])?;
    }
    say(&json!({ "messages": options.count, "cpu_ns": cpu_ns }))
}

pub(crate) fn send(options: &Options) -> Outcome {
    let mut stream = TcpStream::connect(options.address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let buffer = vec![0xc3; options.size];
    let mut measured = (0, 0);
    for messages in [options.warmup, options.count] {
        let meter = Meter::start();
        for _ in 0..messages {
            stream.write_all(&buffer)?;
        }
        stream.read_exact(&mut [0])?;
        measured = meter.stop();
    }
    let (ns, cpu_ns) = measured;
    say(
        &json!({ "bytes": options.bytes(options.count), "messages": options.count, "ns": ns, "cpu_ns": cpu_ns }),
    )
}
