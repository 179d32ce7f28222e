//! The serving side of `hamlyn-ping` and `hamlyn-perf`: it does for each client what that asks.

use std::process::ExitCode;
use std::time::Duration;

use hamlyn::{Card, Connection, Handle, Request};
use serde_json::json;

use crate::end::{End, Hello, MAX_SIZE, Wait, Wish};
use crate::word;
use crate::{Outcome, say};

/// A client of whom nothing else tells is gone when it is silent for so long.
const SILENCE: Duration = Duration::from_secs(30);
/// How often to look whether a client is gone.
const LOOK: Duration = Duration::from_secs(1);
/// Messages that are confirmed at once.
pub(crate) const CHUNK: u64 = 16;

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
        std::thread::spawn(move || {
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

/// Prints a ticket, and serves all who have it, one after the other, for ever.
pub(crate) fn ticket(card: &Card, json: bool) -> Outcome<ExitCode> {
    let mut end = End::create(card, MAX_SIZE)?;
    let ticket = end.ticket()?.to_string();
    if json { say(json!({ "ticket": ticket })) } else { say(ticket) }?;
    serve(&mut end, None)?;
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
    let mut counted = Count::default();
    let mut silent = Duration::ZERO;
    loop {
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
        if let Some(handle) = serve_one(end, hello, &mut counted, word)? {
            last = handle;
        }
    }
}

fn serve_one(end: &mut End, hello: &Hello, counted: &mut Count, word: u32) -> Outcome<Option<Handle>> {
    match hello.wish {
        Wish::Echo => {
            let data = end.data(hello.size)?;
            end.fill(&data)?;
        }
        Wish::Answer => {}
        Wish::Count => {
            let sum = counted.add(word);
            return Ok(sum.map(|sum| end.say(&hello.ticket, word::number(sum))).transpose()?);
        }
    }
    Ok(Some(end.send(&hello.ticket, word, hello.size)?))
}

/// Messages that came, in whatever order.
#[derive(Debug, Default)]
struct Count {
    sum: u64,
    last: Option<u32>,
}

impl Count {
    /// Counts a message; the sum, if it is time to confirm it.
    fn add(&mut self, word: u32) -> Option<u64> {
        self.sum += 1;
        if word & word::LAST != 0 {
            self.last = Some(word & !word::LAST);
        }
        let whole = self.last.is_some_and(|last| word::number(self.sum - 1) == last);
        (whole || self.sum % CHUNK == 0).then_some(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_came_is_confirmed_even_if_the_last_message_overtakes_others() {
        let mut count = Count::default();
        let words = (0..20).chain([24 | word::LAST]).chain(20..24);
        let confirmed: Vec<u64> = words.filter_map(|word| count.add(word)).collect();
        assert_eq!(confirmed, [16, 25]);
    }
}
