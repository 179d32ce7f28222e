//! Round trips through the kernel's sockets, for virtio-net between machines and loopback on one.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use serde_json::json;

use crate::result::{Rounds, say};
use crate::{Outcome, PATIENCE, Wait};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Where the echo listens
    #[arg(long)]
    address: SocketAddr,
    /// Bytes of each message
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65000))]
    size: u32,
    /// How the receiver waits: poll asks the kernel again and again
    #[arg(long, value_enum, default_value = "sleep")]
    wait: Wait,
}

impl Options {
    fn buffer(&self) -> Vec<u8> {
        vec![0xa5; self.size as usize]
    }

    fn polls(&self) -> bool {
        self.wait == Wait::Poll
    }
}

/// Asks again while there is nothing, as a receiver that polls does.
fn again<T>(mut act: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    loop {
        match act() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            result => return result,
        }
    }
}

pub(crate) fn udp_echo(options: &Options) -> Outcome {
    let socket = UdpSocket::bind(options.address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = options.buffer();
    say(&json!({ "ready": true }))?;
    say(&options.rounds.answer(|round| {
        if round == 1 {
            socket.set_nonblocking(options.polls())?;
        }
        let (length, peer) = again(|| socket.recv_from(&mut buffer))?;
        socket.send_to(&buffer[..length], peer)?;
        Ok(())
    })?)
}

pub(crate) fn udp_ping(options: &Options) -> Outcome {
    let any = if options.address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(options.address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = options.buffer();
    say(&options.rounds.measure(|round| {
        if round == 1 {
            socket.set_nonblocking(options.polls())?;
        }
        socket.send(&buffer)?;
        again(|| socket.recv(&mut buffer))?;
        Ok(())
    })?)
}

pub(crate) fn tcp_echo(options: &Options) -> Outcome {
    let listener = TcpListener::bind(options.address)?;
    say(&json!({ "ready": true }))?;
    let (mut stream, _) = listener.accept()?;
    prepare(&stream)?;
    let mut buffer = options.buffer();
    say(&options.rounds.answer(|_| {
        stream.read_exact(&mut buffer)?;
        Ok(stream.write_all(&buffer)?)
    })?)
}

pub(crate) fn tcp_ping(options: &Options) -> Outcome {
    let mut stream = TcpStream::connect(options.address)?;
    prepare(&stream)?;
    let mut buffer = options.buffer();
    say(&options.rounds.measure(|_| {
        stream.write_all(&buffer)?;
        Ok(stream.read_exact(&mut buffer)?)
    })?)
}

fn prepare(stream: &TcpStream) -> Outcome {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(())
}
