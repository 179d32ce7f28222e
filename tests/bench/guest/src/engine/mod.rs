//! Code that the programs of all cards share, and the programs of the alternatives to a card.
//!
//! No card is named here. The files are listed from the bottom up; each file uses only those above
//! it in this list:
//!
//! | file | holds |
//! |---|---|
//! | `wait` | how a receiver waits, and how long |
//! | `result` | a role's result and output: samples, times, words for its peer |
//! | `counts` | a card's counters over a period |
//! | `laps` | a transfer in laps |
//! | `lap_words` | the protocol of a stream between two ends that write to each other's memory |
//! | `memcpy` | copies within memory |
//! | `hand_over` | copies from core to core |
//! | `switches` | switches between processes |
//! | `sockets` | round trips through the kernel's sockets |
//! | `tcp_stream` | one-way bandwidth of TCP |
//! | `ivshmem` | round trips through memory that both machines map |

pub(crate) mod counts;
pub(crate) mod hand_over;
pub(crate) mod ivshmem;
pub(crate) mod lap_words;
pub(crate) mod laps;
pub(crate) mod memcpy;
pub(crate) mod result;
pub(crate) mod sockets;
pub(crate) mod switches;
pub(crate) mod tcp_stream;
pub(crate) mod wait;

use clap::Subcommand;

use crate::engine::result::Outcome;

/// One end of an exchange without a card.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Sends back the datagrams of udp-ping
    UdpEcho(sockets::Options),
    /// Measures round trips of datagrams
    UdpPing(sockets::Options),
    /// Sends back the messages of tcp-ping
    TcpEcho(sockets::Options),
    /// Measures round trips through a TCP connection
    TcpPing(sockets::Options),
    /// Sends back the messages of vsock-ping
    VsockEcho(sockets::VsockOptions),
    /// Measures round trips through a vsock connection
    VsockPing(sockets::VsockOptions),
    /// Receives and checks the data that tcp-send sends
    TcpSink(tcp_stream::Options),
    /// Measures one-way bandwidth of a TCP connection
    TcpSend(tcp_stream::Options),
    /// Stores back the messages of ivshmem-ping
    IvshmemEcho(ivshmem::Options),
    /// Measures round trips through memory that both machines map
    IvshmemPing(ivshmem::Options),
    /// Measures copies within memory
    Memcpy(memcpy::Options),
    /// Measures copies into memory that another core has read
    HandOver(hand_over::Options),
    /// Measures switches between two processes on one processor
    Switch(switches::Options),
    /// Runs the other process of switch
    SwitchBack(switches::Options),
}

impl Role {
    /// Runs this role.
    pub(crate) fn run(self) -> Outcome {
        match self {
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
            Role::HandOver(options) => hand_over::run(&options),
            Role::Switch(options) => switches::run(&options),
            Role::SwitchBack(options) => switches::back(&options),
        }
    }
}
