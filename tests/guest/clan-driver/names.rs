//! Connections of the operating systems, by name. They use the driver's own endpoint.

use std::collections::BTreeMap;

use hamlyn::clan::Card;
use hamlyn::{Connection, Error, Listener};
use serde_json::{Value, json};

use crate::common::Outcome;
use crate::desk::PATIENCE;

/// The objects created so far.
#[derive(Default)]
pub(crate) struct Names {
    listeners: BTreeMap<String, Listener>,
    connections: Vec<Connection>,
}

impl Names {
    pub(crate) fn obey(&mut self, card: &Card, words: &[&str]) -> Outcome<Value> {
        match *words {
            ["listen", name] => {
                self.listeners.insert(name.to_owned(), card.listen(name)?);
                Ok(json!({ "listening": name }))
            }
            ["admit", name, text] => {
                let request =
                    self.listeners.get(name).ok_or("that is not listened to")?.request_timeout(PATIENCE)?;
                let (host, private) = (request.host(), text_of(request.private()));
                let made = request.accept(text.as_bytes())?;
                Ok(json!({ "admitted": self.keep(made), "host": host, "private": private }))
            }
            ["reach", host, name, text] => match card.connect(host.parse()?, name, text.as_bytes()) {
                Ok(made) => {
                    let private = text_of(made.private());
                    Ok(json!({ "reached": self.keep(made), "private": private }))
                }
                Err(Error::Ended(end)) => Ok(json!({ "refused": end.reason.name() })),
                Err(error) => Err(error.into()),
            },
            ["over", number] => {
                let made = self.connections.get(number.parse::<usize>()?).ok_or("no such connection")?;
                Ok(json!({ "over": made.wait_end_timeout(PATIENCE)?.reason.name() }))
            }
            _ => Err(format!("what is {words:?}?").into()),
        }
    }

    fn keep(&mut self, connection: Connection) -> usize {
        self.connections.push(connection);
        self.connections.len() - 1
    }
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
