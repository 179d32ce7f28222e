//! The serving side of `hamlyn-ping` and `hamlyn-perf`, which does what each client requests.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hamlyn::channel::{Card, Listener};
use serde_json::json;

use crate::end::{End, ROOM, Wait, max_size, options};
use crate::flow::{Event, Flow};
use crate::hello::{Hello, Wish};
use crate::word;
use crate::{Outcome, complain, say};

/// Time for a client's first request.
const SILENCE: Duration = Duration::from_secs(30);

/// Listens under a name, and serves each client in its own thread, indefinitely.
pub(crate) fn listen(card: &Card, name: &str, json: bool) -> Outcome<ExitCode> {
    let listener = Listener::bind(card, name, options(card, max_size(card), false))?;
    announce(name, card.host()?, json)?;
    loop {
        let channel = match listener.accept() {
            Ok(channel) => channel,
            // A client that cannot be served is told why, and does not affect the next one.
            Err(error) => {
                card.host()?;
                complain(format_args!("a client was not accepted: {error}"));
                continue;
            }
        };
        let client = move || {
            if let Err(error) = serve(&mut End::new(channel)) {
                complain(format_args!("a client: {error}"));
            }
        };
        if let Err(error) = thread::Builder::new().spawn(client) {
            complain(format_args!("a client was not served: {error}"));
        }
    }
}

/// Prints that the server listens.
fn announce(name: &str, host: Option<u32>, json: bool) -> Outcome {
    if json {
        return say(json!({ "listening": name, "host": host }));
    }
    let host = host.map_or("?".to_owned(), |host| host.to_string());
    say(format_args!("listening on host {host} as {name}"))
}

/// Serves a client until it closes the channel.
fn serve(end: &mut End) -> Outcome {
    end.set_wait(Wait::Adapt);
    let limit = end.room();
    let mut next = match end.receive(Some(SILENCE))? {
        Some(received) => Some(parse(received.word, &received.bytes()?, limit)?),
        None => None,
    };
    while let Some(hello) = next {
        end.set_wait(hello.wait);
        end.send(word::READY, &[], None)?;
        next = session(end, &hello)?;
    }
    Ok(())
}

/// Decodes a client's request.
fn parse(word: u32, bytes: &[u8], limit: usize) -> Outcome<Hello> {
    let hello = Some(word).filter(|word| *word == word::HELLO).and_then(|_| Hello::from_bytes(bytes, limit));
    Ok(hello.ok_or("its request is not of this version's tools, or too large for the channel")?)
}

/// Does what a client has requested. Returns its next request; `None` if it has closed the channel.
fn session(end: &mut End, hello: &Hello) -> Outcome<Option<Hello>> {
    let mut flow = Flow::new(hello.depth.into());
    let limit = end.room();
    // A confirmation covers all before it, so only the last is owed while there is no room. Both
    // ends would wait for ever if each waited for room.
    let mut owed = None;
    loop {
        let mut is_full = !end.try_say(&mut owed)?;
        while hello.wish == Wish::Both && flow.may_send() && !is_full {
            match end.reserve(hello.size, Some(Duration::ZERO)) {
                Ok(room) => {
                    let is_last = hello.is_last(flow.sent(), flow.peer_has_ended());
                    room.send(flow.next_word(is_last))?;
                }
                Err(error) if error.is_would_block() => is_full = true,
                Err(error) => return Err(error.into()),
            }
        }
        let received = match end.receive(is_full.then_some(ROOM)) {
            Ok(Some(received)) => received,
            Ok(None) => return Ok(None),
            Err(error) if is_full && error.is_timed_out() => continue,
            Err(error) => return Err(error.into()),
        };
        let word = received.word;
        if word == word::HELLO {
            return parse(word, &received.bytes()?, limit).map(Some);
        }
        match hello.wish {
            Wish::Echo => {
                let bytes = received.bytes()?;
                drop(received);
                end.send(word, &bytes, None)?;
            }
            Wish::Answer => {
                drop(received);
                end.reserve(hello.size, None)?.send(word)?;
            }
            Wish::Count | Wish::Both => {
                drop(received);
                if let Event::Came(Some(answer)) = flow.take(word) {
                    owed = Some(answer);
                }
            }
        }
    }
}
