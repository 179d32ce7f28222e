//! Round trips through the kernel's sockets: virtio-net and vsock between machines, loopback on one
//! machine.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use hamlyn_bench_guest::pattern::{check_mark, mark};
use serde_json::json;
use vsock::{VMADDR_CID_ANY, VsockListener, VsockStream};

use crate::engine::result::{Outcome, Rounds, say};
use crate::engine::wait::{PATIENCE, Wait};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: Rounds,
    /// Address on which the echo listens
    #[arg(long)]
    address: SocketAddr,
    /// Bytes of each message
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65000))]
    size: u32,
    /// How the receiver waits: poll repeats a non-blocking receive
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

/// Retries a non-blocking operation until it succeeds, as a polling receiver does.
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
        check_mark(&buffer[..length], round)?;
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
        mark(&mut buffer, round);
        socket.send(&buffer)?;
        let length = again(|| socket.recv(&mut buffer))?;
        Ok(check_mark(&buffer[..length], round)?)
    })?)
}

pub(crate) fn tcp_echo(options: &Options) -> Outcome {
    let listener = TcpListener::bind(options.address)?;
    say(&json!({ "ready": true }))?;
    let (stream, _) = listener.accept()?;
    prepare(&stream)?;
    answer(stream, options.rounds, options.buffer())
}

pub(crate) fn tcp_ping(options: &Options) -> Outcome {
    let stream = TcpStream::connect(options.address)?;
    prepare(&stream)?;
    measure(stream, options.rounds, options.buffer())
}

#[derive(Debug, clap::Args)]
pub(crate) struct VsockOptions {
    #[command(flatten)]
    rounds: Rounds,
    /// The CID of the other machine
    #[arg(long)]
    cid: u32,
    /// Port on which its echo listens
    #[arg(long, default_value_t = 7000)]
    port: u32,
    /// Bytes of each message
    #[arg(long, default_value_t = 16)]
    size: usize,
}

pub(crate) fn vsock_echo(options: &VsockOptions) -> Outcome {
    let listener = VsockListener::bind_with_cid_port(VMADDR_CID_ANY, options.port)?;
    say(&json!({ "ready": true }))?;
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    answer(stream, options.rounds, vec![0; options.size])
}

pub(crate) fn vsock_ping(options: &VsockOptions) -> Outcome {
    let stream = VsockStream::connect_with_cid_port(options.cid, options.port)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    measure(stream, options.rounds, vec![0xa5; options.size])
}

fn answer(mut stream: impl Read + Write, rounds: Rounds, mut buffer: Vec<u8>) -> Outcome {
    say(&rounds.answer(|round| {
        stream.read_exact(&mut buffer)?;
        check_mark(&buffer, round)?;
        Ok(stream.write_all(&buffer)?)
    })?)
}

fn measure(mut stream: impl Read + Write, rounds: Rounds, mut buffer: Vec<u8>) -> Outcome {
    say(&rounds.measure(|round| {
        mark(&mut buffer, round);
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        Ok(check_mark(&buffer, round)?)
    })?)
}

fn prepare(stream: &TcpStream) -> Outcome {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(())
}
