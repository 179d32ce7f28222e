//! The shortest example: one program has memory, the other stores to it.
//!
//! A receiver registers a name, and answers each connection with the handle of its memory. The
//! sender maps a buffer to it. A message and a flag are sent automatically (automatic update,
//! section 4.1), and several pages on request (deliberate update, section 4.3).

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hamlyn::shrimp::{Card, Handle, Mode};
use serde_json::json;

use crate::common::{Outcome, fill_pattern, find_difference, print};
use crate::seek::seek;

/// Offset of the message's length. 0 means that there is no message yet.
const FLAG: usize = 0;
/// Offset of the message.
const MESSAGE: usize = 8;
/// Offset of the pages that are sent by deliberate update, and of their own flag.
const PAGES_FLAG: usize = 4;
const PAGES: usize = 4096;
/// Seed of their contents.
const SEED: u64 = 7;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The receiver's name
    #[arg(long, default_value = "shrimp-hello", global = true)]
    name: String,
    /// Bytes sent by deliberate update, a multiple of 4
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
    /// Waits for a message
    Receive,
    /// Stores a message at any host that listens
    Send {
        /// The mode of the message's mapping
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
    let patience = Duration::from_secs(options.timeout);
    let listener = card.listen(&options.name)?;
    let buffer = card.export(PAGES + options.bytes, card.hosts()?)?;
    print(&json!({ "listening": options.name, "host": card.host()? }))?;
    let request = listener.request_timeout(patience)?;
    let sender = request.host();
    let connection = request.accept(&buffer.handle()?.to_bytes())?;

    let length = buffer.wait_timeout(FLAG, 0, patience)?;
    let mut text = vec![0; (length as usize).min(PAGES - MESSAGE)];
    buffer.read(MESSAGE, &mut text)?;
    print(&json!({ "from": sender, "message": String::from_utf8_lossy(&text) }))?;

    let length = (buffer.wait_timeout(PAGES_FLAG, 0, patience)? as usize).min(options.bytes);
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
    let patience = Duration::from_secs(options.timeout);
    let connection = seek(card, &options.name, b"", patience)?;
    let handle = Handle::from_bytes(connection.private())?;
    let front = card.map(&handle, 0, PAGES, mode)?;
    let pages = card.map(&handle, PAGES as u64, options.bytes, Mode::Deliberate)?;

    // No send is needed, because the stores themselves are sent. Stores arrive in order, so the
    // message is there when the flag is.
    let text = format!("hello from host {}", card.host()?.unwrap_or_default());
    front.write(MESSAGE, text.as_bytes())?;
    front.store_u32(FLAG, text.len() as u32)?;

    let mut bytes = vec![0; options.bytes];
    fill_pattern(SEED, 0, &mut bytes);
    pages.write(0, &bytes)?;
    pages.send(0, options.bytes)?;
    // Later stores arrive after the pages.
    pages.wait_until_sent_timeout(patience)?;
    front.store_u32(PAGES_FLAG, options.bytes as u32)?;

    // The buffers must live until everything has arrived, which the receiver reports.
    let end = connection.wait_end_timeout(patience)?;
    print(
        &json!({ "sent": options.bytes, "mode": mode.name(), "answer": String::from_utf8_lossy(&end.private) }),
    )
}
