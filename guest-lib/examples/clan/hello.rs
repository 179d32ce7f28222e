//! The shortest example: a message by stores, memory by DMA, and a load across the network.
//!
//! The receiver takes a message, and answers with the descriptor of an aperture. The sender writes
//! there by DMA, then sends a message, which arrives after the bytes.

use clap::{Args, Subcommand};
use hamlyn::clan::programs::transfer::{Receiver, Sender};
use hamlyn::clan::{Card, Descriptor, Rights, Transfer};
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::meet;

/// Bytes of each end's memory.
const LENGTH: usize = 4096;
/// Seed of the data sent by DMA.
const SEED: u64 = 7;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of bytes sent by DMA
    #[arg(long, default_value_t = 20_000, global = true)]
    bytes: usize,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Waits for a hello
    Receive,
    /// Says hello to any host that listens
    Send,
}

pub(crate) fn run(card: &Card, meet: &meet::Options, options: &Options) -> Outcome {
    match options.what {
        What::Receive => receive(card, meet, options.bytes),
        What::Send => send(card, meet, options.bytes),
    }
}

fn receive(card: &Card, meet: &meet::Options, bytes: usize) -> Outcome {
    let listener = meet.listen(card)?;
    let end = meet.accept(card, &listener, LENGTH)?;
    let (mut receiver, mut sender) = (Receiver::new(&end)?, Sender::new(&end)?);
    let mut text = vec![0; receiver.capacity()];
    let length = receiver.recv_into(&mut text)?;
    let from = end.connection().peer().host;
    print(&json!({ "from": from, "message": String::from_utf8_lossy(&text[..length]) }))?;

    let aperture = card.aperture(bytes, Rights::ReadWrite)?;
    sender.send(&aperture.descriptor()?.to_bytes())?;
    receiver.recv_into(&mut text)?;
    let mut arrived = vec![0; bytes];
    aperture.read(0, &mut arrived)?;
    if let Some(at) = find_difference(SEED, 0, &arrived) {
        return Err(format!("byte {at} of {bytes} is another").into());
    }
    print(&json!({ "received": bytes, "verified": true }))?;
    sender.send(b"thank you")?;
    end.connection().wait_end_timeout(meet.patience())?;
    Ok(())
}

fn send(card: &Card, meet: &meet::Options, bytes: usize) -> Outcome {
    let end = meet.connect(card, LENGTH)?;
    let (mut sender, mut receiver) = (Sender::new(&end)?, Receiver::new(&end)?);
    let text = format!("hello from host {}", card.host()?.unwrap_or_default());
    sender.send(text.as_bytes())?;

    let mut told = [0; Descriptor::SIZE];
    receiver.recv_into(&mut told)?;
    let target = Descriptor::from_bytes(&told)?;
    let (from, mut pattern) = (card.aperture(bytes, Rights::None)?, vec![0; bytes]);
    fill_pattern(SEED, 0, &mut pattern);
    from.write(0, &pattern)?;
    let endpoint = end.connection().endpoint();
    let put = endpoint.dma().try_put(&Transfer::write(&from, 0, &target, 0, bytes)?)?;
    endpoint.dma().wait_timeout(put, meet.patience())?;
    // Later stores arrive after the DMA data.
    sender.send(b"it is there")?;
    // A load reads the data back.
    let mut first = vec![0; bytes.min(8)];
    endpoint.map(&target, 0, bytes.min(8))?.read(0, &mut first)?;

    let mut answer = [0; 64];
    let length = receiver.recv_into(&mut answer)?;
    print(&json!({
        "sent": bytes,
        "loaded": first == pattern[..first.len()],
        "answer": String::from_utf8_lossy(&answer[..length]),
    }))?;
    drop((sender, receiver));
    end.close()?;
    Ok(())
}
