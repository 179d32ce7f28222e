//! Code between marks, whose instructions `c-count` counts: each primitive as used in a program,
//! with one message per iteration of a loop. Lengths, types and nodes come from memory, so the
//! compiler knows none of them. The cost of the bytes is not counted, or the bytes are few.
//!
//! Everything that a primitive would wait for is there before each pair of marks. So the count is
//! that of a program that does not wait.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;
use hamlyn::shrimp::primitives::{End, double, nx, single, update};
use hamlyn::shrimp::{Card, Mode, SendBuffer};
use hamlyn_sys::shrimp::marks::{begin, end};
use serde_json::json;

use crate::channel::{Channel, Side, barrier};
use crate::common::{Outcome, print};
use crate::primitives::{HALF, Primitive};

/// Number of times each is counted.
const TIMES: usize = 10;
/// Time that single-stepping through it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The marks' numbers: the primitive; the primitive with one store by the program; a check whether
/// a transfer is done.
const ONE: u8 = 1;
const STORE: u8 = 2;
const CHECK: u8 = 3;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The receiver's name
    #[arg(long, default_value = "shrimp-count", global = true)]
    name: String,
    /// The primitive
    #[arg(long, value_enum, default_value_t = Primitive::Single, global = true)]
    primitive: Primitive,
    /// Number of nodes that csend and crecv know; only the last one, the other end, sends anything
    #[arg(long, default_value_t = 1, global = true)]
    nodes: usize,
    #[command(subcommand)]
    side: Side,
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    let mut channel = Channel::open(card, options.side, &options.name, Mode::Single, PATIENCE)?;
    let silent = (1..options.nodes).map(|_| silent(card)).collect::<Outcome<Vec<_>>>()?;
    match options.side {
        Side::Send => send(&mut channel, options.primitive, &silent)?,
        Side::Receive => receive(&channel, options.primitive, &silent)?,
    }
    print(&json!({ "primitive": options.primitive.name(), "times": TIMES }))?;
    channel.close(options.side, PATIENCE)
}

/// Creates an end that leads back to this process, as a node that sends nothing.
fn silent(card: &Card) -> Outcome<End> {
    let own = card.export(nx::LENGTH, card.host()?)?;
    let out = card.map(&own.handle()?, 0, nx::LENGTH, Mode::Single)?;
    Ok(End::new(own, out)?.with_timeout(PATIENCE))
}

/// The message is there after the first barrier, and was received before the second.
fn both(program: &mut nx::Node<'_>) -> Outcome {
    barrier(program)?;
    barrier(program)
}

fn send(channel: &mut Channel, primitive: Primitive, silent: &[End]) -> Outcome {
    let mut program = nx::Node::new([&channel.barriers])?;
    match primitive {
        Primitive::Single | Primitive::Copy => send_single(channel, &mut program),
        Primitive::Double1 => swap_sender(channel, &mut program),
        Primitive::Double2 => announce(channel, &mut program),
        Primitive::Double3 => send_double(channel, &mut program),
        Primitive::Update => send_blocks(&mut channel.block),
        Primitive::Nx => send_typed(channel, &mut program, silent),
    }?;
    // Both sides are done before either ends.
    barrier(&mut program)
}

fn receive(channel: &Channel, primitive: Primitive, silent: &[End]) -> Outcome {
    let mut program = nx::Node::new([&channel.barriers])?;
    match primitive {
        Primitive::Single => receive_single(channel, &mut program),
        Primitive::Copy => receive_copy(channel, &mut program),
        Primitive::Double1 => swap_receiver(channel, &mut program),
        Primitive::Double2 => take(channel, &mut program),
        Primitive::Double3 => receive_double(channel, &mut program),
        Primitive::Update => Ok(()),
        Primitive::Nx => receive_typed(channel, &mut program, silent),
    }?;
    barrier(&mut program)
}

/// Returns whether to count once more. The number is in memory, so that no register is incremented
/// between marks.
#[inline(never)]
fn again() -> bool {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    BEGUN.fetch_add(1, Ordering::Relaxed) < TIMES
}

// Each is a function of its own, so that the compiler has as many registers as in a program's inner
// loop.

#[inline(never)]
fn send_single(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut sender = single::Sender::new(&channel.messages)?;
    let length = sender.length(black_box(100))?;
    while again() {
        begin::<ONE>();
        sender.wait()?.send(length);
        end::<ONE>();
        both(program)?;
    }
    Ok(())
}

#[inline(never)]
fn receive_single(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut receiver = single::Receiver::new(&channel.messages)?;
    while again() {
        barrier(program)?;
        begin::<ONE>();
        receiver.recv()?.release();
        end::<ONE>();
        barrier(program)?;
    }
    Ok(())
}

#[inline(never)]
fn receive_copy(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut receiver = single::Receiver::new(&channel.messages)?;
    let mut bytes = [0; 200];
    while again() {
        barrier(program)?;
        begin::<ONE>();
        receiver.recv_into(&mut bytes)?;
        end::<ONE>();
        barrier(program)?;
    }
    Ok(())
}

// In case 1, a swap only decides where the next message goes. So one store there by the program is
// counted with it.

#[inline(never)]
fn swap_sender(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut sender = double::Sender::new(&channel.messages, black_box(HALF))?;
    while again() {
        begin::<STORE>();
        sender.swap();
        sender.words()[0].store(1, Ordering::Relaxed);
        end::<STORE>();
        both(program)?;
    }
    Ok(())
}

#[inline(never)]
fn swap_receiver(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut receiver = double::Receiver::new(&channel.messages, black_box(HALF))?;
    while again() {
        barrier(program)?;
        begin::<STORE>();
        receiver.swap();
        receiver.words()[0].store(1, Ordering::Relaxed);
        end::<STORE>();
        barrier(program)?;
    }
    Ok(())
}

#[inline(never)]
fn announce(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut sender = double::Sender::new(&channel.messages, black_box(HALF))?;
    while again() {
        begin::<ONE>();
        sender.announce();
        end::<ONE>();
        both(program)?;
    }
    Ok(())
}

#[inline(never)]
fn take(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut receiver = double::Receiver::new(&channel.messages, black_box(HALF))?;
    while again() {
        barrier(program)?;
        begin::<ONE>();
        receiver.wait()?;
        receiver.take();
        end::<ONE>();
        barrier(program)?;
    }
    Ok(())
}

#[inline(never)]
fn send_double(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut sender = double::Sender::new(&channel.messages, black_box(HALF))?;
    while again() {
        begin::<ONE>();
        sender.wait()?;
        sender.send();
        end::<ONE>();
        both(program)?;
    }
    Ok(())
}

#[inline(never)]
fn receive_double(channel: &Channel, program: &mut nx::Node<'_>) -> Outcome {
    let mut receiver = double::Receiver::new(&channel.messages, black_box(HALF))?;
    while again() {
        barrier(program)?;
        begin::<ONE>();
        receiver.wait()?;
        receiver.release();
        end::<ONE>();
        barrier(program)?;
    }
    Ok(())
}

#[inline(never)]
fn send_blocks(block: &mut SendBuffer) -> Outcome {
    let mut sender = update::Sender::new(block)?;
    while again() {
        let (first, words) = black_box((50, 100));
        begin::<ONE>();
        sender.send(first, words)?;
        end::<ONE>();
        while !sender.is_done() {}
        begin::<CHECK>();
        if !sender.is_done() {
            return Err("the engine is busy".into());
        }
        end::<CHECK>();
    }
    Ok(())
}

#[inline(never)]
fn send_typed(channel: &Channel, program: &mut nx::Node<'_>, silent: &[End]) -> Outcome {
    let mut node = nx::Node::new(silent.iter().chain([&channel.messages]))?;
    let bytes = black_box(vec![7; 100]);
    while again() {
        let (kind, to) = black_box((12, silent.len()));
        begin::<ONE>();
        node.csend(kind, &bytes, to)?;
        end::<ONE>();
        both(program)?;
    }
    Ok(())
}

#[inline(never)]
fn receive_typed(channel: &Channel, program: &mut nx::Node<'_>, silent: &[End]) -> Outcome {
    let mut node = nx::Node::new(silent.iter().chain([&channel.messages]))?;
    let mut bytes = black_box(vec![0; 200]);
    while again() {
        barrier(program)?;
        let kind = black_box(12);
        begin::<ONE>();
        node.crecv(kind, &mut bytes)?;
        end::<ONE>();
        barrier(program)?;
    }
    Ok(())
}
