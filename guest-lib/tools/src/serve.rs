//! The serving side of `hamlyn-ping` and `hamlyn-perf`: it does for each client what that asks.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hamlyn::{Card, Connection, Handle, Request};
use serde_json::json;

use crate::end::{End, Hello, MAX_SIZE, Wait, Wish};
use crate::flow::{Event, Flow};
use crate::word;
use crate::{Outcome, say};

/// A client of whom nothing else tells is gone when it is silent for so long.
const SILENCE: Duration = Duration::from_secs(30);
/// How often to look whether a client is gone.
const LOOK: Duration = Duration::from_secs(1);

/// Listens under a name, and serves all who connect, each in a thread of its own, for ever.
pub(crate) fn listen(card: &Card, name: &str, json: bool) -> Outcome<ExitCode> {
    let listener = card.listen(name)?;
    let host = card.info()?.host;
    if json {
        say(json!({ "listening": name, "host": host }))?;
    } else {
        say(format_args!(
            "listening on host {} as {name}",
            host.map_or("?".to_owned(), |host| host.to_string())
        ))?;
    }
    loop {
        let request = listener.request(None)?;
        let card = card.clone();
        thread::spawn(move || {
            let host = request.host();
            if let Err(error) = serve_request(&card, request) {
                eprintln!("host {host}: {error}");
            }
        });
    }
}

/// The client says how much room it needs; it gets a ticket for it.
fn serve_request(card: &Card, request: Request) -> Outcome {
    let size = request.private().try_into().map_or(u64::MAX, u64::from_le_bytes);
    if size > MAX_SIZE as u64 {
        return Ok(request.reject(b"the size is out of range")?);
    }
    let mut end = End::create(card, size as usize)?;
    let ticket = end.ticket()?;
    let connection = request.accept(&ticket.to_bytes())?;
    serve(&mut end, Some(&connection))
}

/// Prints so many tickets, joined by commas, and serves all who have them, for each one after the other, for ever.
pub(crate) fn tickets(card: &Card, count: usize, json: bool) -> Outcome<ExitCode> {
    let mut ends = (0..count).map(|_| End::create(card, MAX_SIZE)).collect::<Outcome<Vec<End>>>()?;
    let tickets = ends.iter().map(|end| Ok(end.ticket()?.to_string())).collect::<Outcome<Vec<_>>>()?;
    let tickets = tickets.join(",");
    if json { say(json!({ "ticket": tickets })) } else { say(tickets) }?;
    thread::scope(|scope| {
        let text = |error: Box<dyn std::error::Error>| error.to_string();
        let serving = ends.iter_mut().map(|end| scope.spawn(move || serve(end, None).map_err(text)));
        for thread in serving.collect::<Vec<_>>() {
            thread.join().map_err(|_| "a server's thread has panicked")??;
        }
        Outcome::Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Serves until the connection ends; for ever without one.
fn serve(end: &mut End, connection: Option<&Connection>) -> Outcome {
    let mut next = None;
    loop {
        if let Some(hello) = next {
            next = match session(end, &hello, connection) {
                // What one client's ticket leads to is no affair of the next.
                Err(error) if connection.is_none() => {
                    eprintln!("host {}: {error}", hello.ticket.destination);
                    None
                }
                outcome => outcome?,
            };
            continue;
        }
        match end.receive(Wait::Sleep, Some(LOOK))? {
            Some(word::HELLO) => next = end.read_hello()?,
            None if has_ended(connection)? => return Ok(()),
            _ => {}
        }
    }
}

fn has_ended(connection: Option<&Connection>) -> hamlyn::Result<bool> {
    connection.map_or(Ok(false), |connection| Ok(connection.end()?.is_some()))
}

/// Serves a client until it has gone or wants something else.
fn session(end: &mut End, hello: &Hello, connection: Option<&Connection>) -> Outcome<Option<Hello>> {
    let mut last = end.say(&hello.ticket, word::READY)?;
    let mut flow = Flow::new(hello.depth.into());
    let mut silent = Duration::ZERO;
    loop {
        while hello.wish == Wish::Both && flow.may_send() {
            let is_last = hello.is_last(flow.sent(), flow.peer_has_ended());
            last = end.send(&hello.ticket, flow.next_word(is_last), hello.size)?;
        }
        let word = match end.receive(hello.wait, Some(LOOK))? {
            None if silent < SILENCE && !has_ended(connection)? => {
                silent += LOOK;
                continue;
            }
            Some(word::BYE) | None => {
                // What is still in the work queue when the terminus goes would be abandoned.
                last.wait(Some(SILENCE))?;
                return Ok(None);
            }
            Some(word::HELLO) => return Ok(end.read_hello()?),
            Some(word) => word,
        };
        silent = Duration::ZERO;
        if let Some(handle) = serve_one(end, hello, &mut flow, word)? {
            last = handle;
        }
    }
}

fn serve_one(end: &mut End, hello: &Hello, flow: &mut Flow, word: u32) -> Outcome<Option<Handle>> {
    match hello.wish {
        Wish::Echo => {
            let data = end.data(hello.size)?;
            end.fill(&data)?;
        }
        Wish::Answer => {}
        Wish::Count | Wish::Both => {
            let Event::Came(Some(answer)) = flow.take(word) else { return Ok(None) };
            return Ok(Some(end.say(&hello.ticket, answer)?));
        }
    }
    Ok(Some(end.send(&hello.ticket, word, hello.size)?))
}
