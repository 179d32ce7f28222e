//! The shortest way: one program has memory, the other stores to it.
//!
//! A receiver takes a name, and its answer to who connects is the handle of its memory. The sender
//! maps a buffer to it: a message and a flag travel by themselves (automatic update, section 4.1),
//! several pages when they are told to (deliberate update, section 4.3).

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hamlyn::shrimp::{Card, Handle, Mode};
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::seek::seek;

/// Where the message's length is told. 0: there is none yet.
const FLAG: usize = 0;
/// Where the message is.
const MESSAGE: usize = 8;
/// Where the pages that are sent deliberately lie, which are told of by a flag of their own.
const PAGES_FLAG: usize = 4;
const PAGES: usize = 4096;
/// What is in them.
const SEED: u64 = 7;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The receiver's name
    #[arg(long, default_value = "shrimp-hello", global = true)]
    name: String,
    /// Bytes that are sent deliberately, a multiple of 4
    #[arg(long, default_value_t = 20_000, global = true)]
    bytes: usize,
    /// Seconds to wait for anything
    #[arg(long, default_value_t = 30, global = true)]
    timeout: u64,
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum What {
    /// Waits for somebody to store a message
    Receive,
    /// Stores one at whichever host listens
    Send {
        /// How the message travels
        #[arg(long, value_enum, default_value_t = Automatic::Single)]
        mode: Automatic,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Automatic {
    Single,
    Blocked,
}

pub(crate) fn run(card: &Card, options: &Options) -> Outcome {
    match options.what {
        What::Receive => receive(card, options),
        What::Send { mode: Automatic::Single } => send(card, options, Mode::Single),
        What::Send { mode: Automatic::Blocked } => send(card, options, Mode::Blocked),
    }
}

fn receive(card: &Card, options: &Options) -> Outcome {
    let patience = Some(Duration::from_secs(options.timeout));
    let listener = card.listen(&options.name)?;
    let buffer = card.export(PAGES + options.bytes, card.hosts()?)?;
    print(&json!({ "listening": options.name, "host": card.host()? }))?;
    let request = listener.request(patience)?;
    let sender = request.host();
    let connection = request.accept(&buffer.handle()?.to_bytes())?;

    let length = buffer.wait(FLAG, 0, patience)?;
    let mut text = vec![0; (length as usize).min(PAGES - MESSAGE)];
    buffer.read(MESSAGE, &mut text)?;
    print(&json!({ "from": sender, "message": String::from_utf8_lossy(&text) }))?;

    let length = (buffer.wait(PAGES_FLAG, 0, patience)? as usize).min(options.bytes);
    let mut bytes = vec![0; length];
    buffer.read(PAGES, &mut bytes)?;
    if let Some(at) = find_difference(SEED, 0, &bytes) {
        return Err(format!("byte {at} of {length} is another").into());
    }
    print(&json!({ "received": length, "verified": true }))?;
    connection.close(b"thank you")?;
    Ok(())
}

fn send(card: &Card, options: &Options, mode: Mode) -> Outcome {
    let patience = Some(Duration::from_secs(options.timeout));
    let connection = seek(card, &options.name, b"", patience)?;
    let handle = Handle::from_bytes(connection.private())?;
    let front = card.map(&handle, 0, PAGES, mode)?;
    let pages = card.map(&handle, PAGES as u64, options.bytes, Mode::Deliberate)?;

    // Nothing has to be sent: the stores are. Who sees the flag sees the message, as they arrive in
    // this order.
    let text = format!("hello from host {}", card.host()?.unwrap_or_default());
    front.write(MESSAGE, text.as_bytes())?;
    front.store_u32(FLAG, text.len() as u32)?;

    let mut bytes = vec![0; options.bytes];
    fill_pattern(SEED, 0, &mut bytes);
    pages.write(0, &bytes)?;
    pages.send(0, options.bytes)?;
    // What is stored from here on arrives behind the pages.
    pages.wait_until_sent(patience)?;
    front.store_u32(PAGES_FLAG, options.bytes as u32)?;

    // The buffers must live until all has arrived: the receiver says so.
    let end = connection.wait_end(patience)?;
    print(
        &json!({ "sent": options.bytes, "mode": mode.name(), "answer": String::from_utf8_lossy(&end.private) }),
    )
}
