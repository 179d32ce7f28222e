//! `hamlyn-bench-guest`: both ends of every exchange that the benchmark measures, one role a process.
//!
//! Results are JSON objects, one a line, on standard output; what a role needs from its peer comes on standard input.
//! The roles that begin with `card-` or `raw-` need a card, in a guest or by its socket (`HAMLYN_CARD`); the others are peers.

mod card;
mod card_stream;
mod idle;
mod ivshmem;
mod laps;
mod memcpy;
mod nobody;
mod raw;
mod result;
mod sockets;
mod software;
mod tcp_stream;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

/// Result of a role.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A peer that is silent for so long is dead.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of an exchange that the benchmark measures
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Sends back what card-ping sends
    CardEcho(card::Options),
    /// Measures round trips through cards
    CardPing(card::Options),
    /// Measures messages of a process to itself (Figure 10)
    CardLoopback(card::Options),
    /// Counts what card-send sends
    CardSink(card_stream::Options),
    /// Measures one-way bandwidth through cards
    CardSend(card_stream::Options),
    /// Measures the bandwidth of a process to itself (Figure 10)
    CardSendSelf(card_stream::Options),
    /// Sends back what raw-ping sends
    RawEcho(raw::Options),
    /// Measures round trips through cards without the library (Table 4)
    RawPing(raw::Options),
    /// Measures what a message takes a program, with a card that does nothing (Table 4)
    Software(software::Options),
    /// Sleeps until a message that never comes; tells how much processor time that took
    CardDoze(idle::DozeOptions),
    /// Sends back what udp-ping sends
    UdpEcho(sockets::Options),
    /// Measures round trips of datagrams
    UdpPing(sockets::Options),
    /// Sends back what tcp-ping sends
    TcpEcho(sockets::Options),
    /// Measures round trips through a TCP connection
    TcpPing(sockets::Options),
    /// Sends back what vsock-ping sends
    VsockEcho(sockets::VsockOptions),
    /// Measures round trips through a vsock connection
    VsockPing(sockets::VsockOptions),
    /// Counts what tcp-send sends
    TcpSink(tcp_stream::Options),
    /// Measures one-way bandwidth of a TCP connection
    TcpSend(tcp_stream::Options),
    /// Sends back what ivshmem-ping stores
    IvshmemEcho(ivshmem::Options),
    /// Measures round trips through memory that both machines map
    IvshmemPing(ivshmem::Options),
    /// Measures copies within memory
    Memcpy(memcpy::Options),
}

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Wait {
    /// Looks without end: no system call, no interrupt
    Poll,
    /// Looks for a while, then yields the processor, and again: where there are more pollers than cores
    Yield,
    /// Goes to sleep at once
    Sleep,
    /// Looks for a while, then sleeps: the library's default
    Spin,
}

fn main() -> ExitCode {
    match run(Options::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> Outcome {
    match role {
        Role::CardEcho(options) => card::echo(&options),
        Role::CardPing(options) => card::ping(&options),
        Role::CardLoopback(options) => card::loopback(&options),
        Role::CardSink(options) => card_stream::sink(&options),
        Role::CardSend(options) => card_stream::send(&options),
        Role::CardSendSelf(options) => card_stream::send_self(&options),
        Role::RawEcho(options) => raw::echo(&options),
        Role::RawPing(options) => raw::ping(&options),
        Role::Software(options) => software::run(&options),
        Role::CardDoze(options) => idle::doze(&options),
        Role::UdpEcho(options) => sockets::udp_echo(&options),
        Role::UdpPing(options) => sockets::udp_ping(&options),
        Role::TcpEcho(options) => sockets::tcp_echo(&options),
        Role::TcpPing(options) => sockets::tcp_ping(&options),
        Role::VsockEcho(options) => sockets::vsock_echo(&options),
        Role::VsockPing(options) => sockets::vsock_ping(&options),
        Role::TcpSink(options) => tcp_stream::sink(&options),
        Role::TcpSend(options) => tcp_stream::send(&options),
        Role::IvshmemEcho(options) => ivshmem::echo(&options),
        Role::IvshmemPing(options) => ivshmem::ping(&options),
        Role::Memcpy(options) => memcpy::run(&options),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
    }
}
