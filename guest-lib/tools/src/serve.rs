//! The serving side of `hamlyn-ping` and `hamlyn-perf`, which does what each client requests.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use hamlyn::attach::Card;
use hamlyn::{Connection, Request, Ticket};
use serde_json::json;

use crate::end::{Address, End, Hello, Wait, Wish};
use crate::flow::{Event, Flow};
use crate::word;
use crate::{Outcome, complain, say};

/// A client that is not monitored otherwise counts as gone after this silence.
const SILENCE: Duration = Duration::from_secs(30);
/// Interval of checks whether a client is gone.
const LOOK: Duration = Duration::from_secs(1);

/// Listens under a name, and serves each client in its own thread, indefinitely.
pub(crate) fn listen<E: End>(card: &Card<E::Attachment>, name: &str, json: bool) -> Outcome<ExitCode> {
    let listener = card.listen(name)?;
    announce(name, E::host(card)?, json)?;
    loop {
        let request = listener.request(None)?;
        let card = card.clone();
        thread::spawn(move || {
            let host = request.host();
            if let Err(error) = serve_request::<E>(&card, request) {
                complain(format_args!("host {host}: {error}"));
            }
        });
    }
}

/// Prints that the server listens.
pub(crate) fn announce(name: &str, host: Option<u32>, json: bool) -> Outcome {
    if json {
        return say(json!({ "listening": name, "host": host }));
    }
    let host = host.map_or("?".to_owned(), |host| host.to_string());
    say(format_args!("listening on host {host} as {name}"))
}

/// Serves a request. It contains the size that the client needs; the answer contains the address.
fn serve_request<E: End>(card: &Card<E::Attachment>, request: Request) -> Outcome {
    let size = request.private().try_into().map_or(u64::MAX, u64::from_le_bytes);
    if size > E::MAX_SIZE as u64 {
        return Ok(request.reject(b"the size is out of range")?);
    }
    let mut end = E::create(card, Some(request.host()), size as usize)?;
    let address = end.address()?;
    let connection = request.accept(&address.to_bytes())?;
    serve(&mut end, Some(&connection))
}

/// Prints `count` tickets, joined by commas, and serves their holders indefinitely, one after the
/// other for each ticket.
pub(crate) fn tickets<E: End<Address = Ticket>>(
    card: &Card<E::Attachment>,
    count: usize,
    json: bool,
) -> Outcome<ExitCode> {
    let mut ends = (0..count).map(|_| E::create(card, None, E::MAX_SIZE)).collect::<Outcome<Vec<E>>>()?;
    let tickets = ends.iter().map(|end| Ok(end.address()?.to_string())).collect::<Outcome<Vec<_>>>()?;
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

/// Serves until the connection ends. Without a connection, serves until the end notices that the
/// peer is gone, or indefinitely.
pub(crate) fn serve<E: End>(end: &mut E, connection: Option<&Connection>) -> Outcome {
    let mut next = None;
    loop {
        if let Some(hello) = next {
            next = match session(end, &hello, connection) {
                // A failure with one client's ticket does not affect the next client.
                Err(error) if connection.is_none() => {
                    complain(format_args!("host {}: {error}", hello.address.host()));
                    None
                }
                outcome => outcome?,
            };
            continue;
        }
        match end.receive(Wait::Sleep, Some(LOOK))? {
            Some(word::HELLO) => next = read_hello(end)?,
            None if has_ended(end, connection)? => return Ok(()),
            _ => {}
        }
    }
}

fn has_ended<E: End>(end: &E, connection: Option<&Connection>) -> hamlyn::Result<bool> {
    connection.map_or(Ok(end.has_ended()), |connection| Ok(connection.end()?.is_some()))
}

/// Serves a client until it is gone or sends another request.
fn session<E: End>(
    end: &mut E,
    hello: &Hello<E::Address>,
    connection: Option<&Connection>,
) -> Outcome<Option<Hello<E::Address>>> {
    E::check(hello.wish, hello.size)?;
    end.reach(&hello.address, hello.wish)?;
    end.say(word::READY)?;
    let mut flow = Flow::new(hello.depth.into());
    let mut silent = Duration::ZERO;
    loop {
        while hello.wish == Wish::Both && flow.may_send() {
            let is_last = hello.is_last(flow.sent(), flow.peer_has_ended());
            end.send(flow.next_word(is_last), hello.size)?;
        }
        let word = match end.receive(hello.wait, Some(LOOK))? {
            None if silent < SILENCE && !has_ended(end, connection)? => {
                silent += LOOK;
                continue;
            }
            Some(word::BYE) | None => {
                end.finish(SILENCE)?;
                return Ok(None);
            }
            Some(word::HELLO) => return read_hello(end),
            Some(word) => word,
        };
        silent = Duration::ZERO;
        serve_one(end, hello, &mut flow, word)?;
    }
}

/// Returns a client's request, if it is valid.
fn read_hello<E: End>(end: &E) -> Outcome<Option<Hello<E::Address>>> {
    Ok(Hello::from_bytes(&end.read_hello()?, end.address()?.room()))
}

fn serve_one<E: End>(end: &mut E, hello: &Hello<E::Address>, flow: &mut Flow, word: u32) -> Outcome {
    match hello.wish {
        Wish::Echo => {
            let data = end.data(hello.size)?;
            end.fill(&data)?;
        }
        Wish::Answer => {}
        Wish::Count | Wish::Both => {
            if let Event::Came(Some(answer)) = flow.take(word) {
                end.say(answer)?;
            }
            return Ok(());
        }
    }
    Ok(end.send(word, hello.size)?)
}
