//! A lock manager: a table of locks, and a server that answers a call once the lock is free.

use hamlyn::Ticket;
use hamlyn_examples::calls::{Asker, Call, Event, Server};

use crate::table::{Grant, Mode, Table};

/// The longest name of a lock, in bytes.
const MAX_LOCK: usize = 256;

/// A manager.
pub(crate) struct LockManager {
    table: Table<u64>,
    /// Calls that are answered when the lock is granted. An owner is a client, and has at most one
    /// such call per lock.
    waiting: Vec<(String, Asker)>,
    words: Ticket,
    granted: u64,
    freed: u64,
}

impl LockManager {
    /// Creates a manager. Its clients guard these words by its locks.
    pub(crate) fn new(words: Ticket) -> Self {
        Self { table: Table::new(), waiting: Vec::new(), words, granted: 0, freed: 0 }
    }

    /// Returns the number of granted locks.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Returns the number of clients that are gone, with all their locks freed.
    pub(crate) fn freed(&self) -> u64 {
        self.freed
    }

    /// Returns the number of locks that are held now.
    pub(crate) fn held(&self) -> usize {
        self.table.len()
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, server: &mut Server, event: Event) {
        match event {
            Event::Called(call) => self.call(server, &call),
            Event::Gone { client, .. } => {
                self.freed += 1;
                self.waiting.retain(|(_, asker)| asker.client != client);
                for (lock, grant) in self.table.forget(client) {
                    self.tell(server, &lock, grant);
                }
            }
        }
    }

    fn call(&mut self, server: &mut Server, call: &Call) {
        let (asker, client) = (call.asker, call.asker.client);
        let lock = match std::str::from_utf8(&call.arguments) {
            Ok(lock) if lock.len() <= MAX_LOCK => lock,
            _ => return server.answer(asker, Err("a lock's name is UTF-8 of up to 256 bytes")),
        };
        let grants = match call.procedure.as_str() {
            "lock exclusive" => self.request(lock, asker, Mode::Exclusive),
            "lock shared" => self.request(lock, asker, Mode::Shared),
            "unlock" => self.table.release(lock, client).inspect(|_| server.answer(asker, Ok(&[]))),
            "withdraw" => {
                self.waiting.retain(|(name, asker)| name != lock || asker.client != client);
                server.answer(asker, Ok(&[]));
                Ok(self.table.withdraw(lock, client))
            }
            "words" => return server.answer(asker, Ok(&self.words.to_bytes())),
            other => return server.answer(asker, Err(&format!("there is no procedure {other:?}"))),
        };
        match grants {
            Ok(grants) => grants.into_iter().for_each(|grant| self.tell(server, lock, grant)),
            Err(refusal) => server.answer(asker, Err(&format!("{lock:?}: {refusal}"))),
        }
    }

    fn request(
        &mut self,
        lock: &str,
        asker: Asker,
        mode: Mode,
    ) -> Result<Vec<Grant<u64>>, crate::table::Refusal> {
        let grants = self.table.request(lock, asker.client, mode)?;
        self.waiting.push((lock.to_owned(), asker));
        Ok(grants)
    }

    /// Answers the call of an owner that was granted the lock.
    fn tell(&mut self, server: &mut Server, lock: &str, grant: Grant<u64>) {
        let asked = |(name, asker): &(String, Asker)| name == lock && asker.client == grant.owner;
        if let Some(position) = self.waiting.iter().position(asked) {
            let (_, asker) = self.waiting.remove(position);
            self.granted += 1;
            server.answer(asker, Ok(&grant.number.to_le_bytes()));
        }
    }
}
