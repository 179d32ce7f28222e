//! The message-passing primitives of section 5.2, each used as in a program, with verified
//! messages.
//!
//! `c-primitives` is the same in C and can be the peer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueEnum};
use hamlyn::shrimp::primitives::{End, double, nx, single, update};
use hamlyn::shrimp::{Card, Mode, ReceiveBuffer, SendBuffer};
use serde_json::json;

use crate::channel::{BLOCK, Channel, Side, barrier};
use crate::common::{Outcome, fill_pattern, find_difference, print};

/// Bytes of each message of double buffering.
pub(crate) const HALF: usize = 6000;
/// Lengths of csend's messages: none, one, exactly a buffer, more. Three of the longest fit into a
/// node's buffers.
const LENGTHS: [usize; 8] = [0, 1, 100, 2047, 2048, 2049, 5000, 10_000];
/// Types that are sent in turn, and received in another order.
const TYPES: [u16; 3] = [0, 77, 65_535];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The receiver's name
    #[arg(long, default_value = "shrimp-primitives", global = true)]
    name: String,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    /// The primitive
    #[arg(long, value_enum, default_value_t = Primitive::Single, global = true)]
    primitive: Primitive,
    /// Number of messages; three times as many for csend
    #[arg(long, default_value_t = 20, global = true)]
    count: u32,
    /// Lets consecutive stores travel together (blocked-write)
    #[arg(long, global = true)]
    blocked: bool,
    /// Only stores this number where the sender announces what it has sent, for tests
    #[arg(long, global = true)]
    nonsense: Option<u32>,
    #[command(subcommand)]
    side: Side,
}

/// The primitives, with the names used in both languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Primitive {
    /// Single buffering: the message is read in place
    Single,
    /// Single buffering with copy
    Copy,
    /// Double buffering, case 1: with barriers alone
    Double1,
    /// Double buffering, case 2: a flag announces a message, a barrier that it was taken
    Double2,
    /// Double buffering, case 3: flags alone
    Double3,
    /// Deliberate-update transfers of several pages
    Update,
    /// csend and crecv
    Nx,
}

impl Primitive {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Primitive::Single => "single",
            Primitive::Copy => "copy",
            Primitive::Double1 => "double1",
            Primitive::Double2 => "double2",
            Primitive::Double3 => "double3",
            Primitive::Update => "update",
            Primitive::Nx => "nx",
        }
    }
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    let patience = Duration::from_secs(options.timeout);
    let mode = if options.blocked { Mode::Blocked } else { Mode::Single };
    let mut channel = Channel::open(card, options.side, &options.name, mode, patience)?;
    if let Some(nonsense) = options.nonsense {
        card.map(&channel.other, 0, 8, Mode::Single)?.store_u32(0, nonsense)?;
        return channel.close(options.side, patience);
    }
    let (primitive, count) = (options.primitive, options.count);
    match options.side {
        Side::Send => send(&mut channel, primitive, count)?,
        Side::Receive => receive(&channel, primitive, count)?,
    }
    let verb = if options.side == Side::Send { "sent" } else { "verified" };
    print(&json!({ "primitive": primitive.name(), verb: count }))?;
    channel.close(options.side, patience)
}

fn send(channel: &mut Channel, primitive: Primitive, count: u32) -> Outcome {
    let mut program = nx::Node::new([&channel.barriers])?;
    match primitive {
        Primitive::Single | Primitive::Copy => send_single(&channel.messages, count),
        Primitive::Double1 | Primitive::Double2 | Primitive::Double3 => {
            send_double(&channel.messages, &mut program, primitive, count)
        }
        Primitive::Update => send_blocks(&mut channel.block, &mut program, count),
        Primitive::Nx => send_typed(&channel.messages, count),
    }?;
    // Both sides are done before either ends.
    barrier(&mut program)
}

fn receive(channel: &Channel, primitive: Primitive, count: u32) -> Outcome {
    let mut program = nx::Node::new([&channel.barriers])?;
    match primitive {
        Primitive::Single => receive_single(&channel.messages, count),
        Primitive::Copy => receive_copies(&channel.messages, count),
        Primitive::Double1 | Primitive::Double2 | Primitive::Double3 => {
            receive_double(&channel.messages, &mut program, primitive, count)
        }
        Primitive::Update => receive_blocks(&channel.received, &mut program, count),
        Primitive::Nx => receive_typed(&channel.messages, count),
    }?;
    barrier(&mut program)
}

fn pattern(seed: u32, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill_pattern(seed.into(), 0, &mut bytes);
    bytes
}

fn verify(seed: u32, bytes: &[u8]) -> Outcome {
    match find_difference(seed.into(), 0, bytes) {
        Some(at) => Err(format!("byte {at} of message {seed}, of {}, is another", bytes.len()).into()),
        None => Ok(()),
    }
}

/// Returns the lengths of single buffering's messages: 1 byte to more than a page.
fn single_length(message: u32) -> usize {
    1 + message as usize * 977 % 9000
}

fn send_single(end: &End, count: u32) -> Outcome {
    let mut sender = single::Sender::new(end)?;
    for message in 0..count {
        let length = sender.length(single_length(message))?;
        let buffer = sender.wait()?;
        buffer.write(0, &pattern(message, single_length(message)))?;
        buffer.send(length);
    }
    Ok(())
}

fn receive_single(end: &End, count: u32) -> Outcome {
    let mut receiver = single::Receiver::new(end)?;
    for number in 0..count {
        let message = receiver.recv()?;
        // In place, a word at a time.
        let words = message.words().iter().take(message.len().div_ceil(8));
        let mut bytes: Vec<u8> = words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(message.len());
        message.release();
        if bytes.len() != single_length(number) {
            return Err(format!("message {number} has {} bytes", bytes.len()).into());
        }
        verify(number, &bytes)?;
    }
    Ok(())
}

fn receive_copies(end: &End, count: u32) -> Outcome {
    let mut receiver = single::Receiver::new(end)?;
    let mut bytes = vec![0; receiver.capacity()];
    for number in 0..count {
        let length = receiver.recv_into(&mut bytes)?;
        if length != single_length(number) {
            return Err(format!("message {number} has {length} bytes").into());
        }
        verify(number, &bytes[..length])?;
    }
    Ok(())
}

fn send_double(end: &End, program: &mut nx::Node<'_>, primitive: Primitive, count: u32) -> Outcome {
    let mut sender = double::Sender::new(end, HALF)?;
    for message in 0..count {
        if primitive == Primitive::Double3 {
            sender.wait()?;
        }
        sender.write(0, &pattern(message, HALF))?;
        match primitive {
            Primitive::Double1 => sender.swap(),
            Primitive::Double2 => sender.announce(),
            _ => sender.send(),
        }
        if primitive != Primitive::Double3 {
            barrier(program)?;
        }
    }
    Ok(())
}

fn receive_double(end: &End, program: &mut nx::Node<'_>, primitive: Primitive, count: u32) -> Outcome {
    let mut receiver = double::Receiver::new(end, HALF)?;
    let mut bytes = vec![0; HALF];
    for message in 0..count {
        match primitive {
            // In this kind of loop, an iteration uses the results of the previous one.
            Primitive::Double1 => barrier(program)?,
            _ => receiver.wait()?,
        }
        receiver.read(0, &mut bytes)?;
        match primitive {
            Primitive::Double1 => receiver.swap(),
            Primitive::Double2 => receiver.take(),
            _ => receiver.release(),
        }
        if primitive == Primitive::Double2 {
            barrier(program)?;
        }
        verify(message, &bytes)?;
    }
    Ok(())
}

/// Returns where a block begins and its length, both in words: a part of a page, or several pages.
fn part(message: u32) -> (usize, usize) {
    let words = BLOCK / 4;
    let first = message as usize * 331 % (words / 2);
    (first, if message % 2 == 0 { 100 } else { words - first })
}

fn send_blocks(block: &mut SendBuffer, program: &mut nx::Node<'_>, count: u32) -> Outcome {
    let mut sender = update::Sender::new(block)?;
    for message in 0..count {
        let (first, words) = part(message);
        sender.write(first * 4, &pattern(message, words * 4))?;
        sender.send(first, words as u32)?;
        // Later stores arrive after the block.
        while !sender.is_done() {
            sender.wait_timeout(Duration::from_secs(10))?;
        }
        barrier(program)?;
        barrier(program)?;
    }
    Ok(())
}

fn receive_blocks(block: &ReceiveBuffer, program: &mut nx::Node<'_>, count: u32) -> Outcome {
    for message in 0..count {
        let (first, words) = part(message);
        let mut bytes = vec![0; words * 4];
        barrier(program)?;
        block.read(first * 4, &mut bytes)?;
        verify(message, &bytes)?;
        barrier(program)?;
    }
    Ok(())
}

fn typed_length(round: u32, place: usize) -> usize {
    LENGTHS[(round as usize * TYPES.len() + place) % LENGTHS.len()]
}

fn send_typed(end: &End, count: u32) -> Outcome {
    let mut node = nx::Node::new([end])?;
    for round in 0..count {
        for (place, kind) in TYPES.into_iter().enumerate() {
            node.csend(kind, &pattern(round, typed_length(round, place)), 0)?;
        }
    }
    Ok(())
}

fn receive_typed(end: &End, count: u32) -> Outcome {
    let mut node = nx::Node::new([end])?;
    let mut bytes = vec![0; 10_000];
    for round in 0..count {
        // Receives in the reverse of the order sent; the earlier messages stay in their buffers.
        for (place, kind) in TYPES.into_iter().enumerate().rev() {
            let length = node.crecv(kind, &mut bytes)?;
            if length != typed_length(round, place) {
                return Err(format!("message {round} of type {kind} has {length} bytes").into());
            }
            verify(round, &bytes[..length])?;
        }
    }
    Ok(())
}
