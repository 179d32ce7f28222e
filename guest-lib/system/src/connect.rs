//! Connections, and the names that are listened to.
//!
//! A connection carries no data. It lets each side pass the other something private, and tells each of the other's end.
//! It is live until it has ended for either side; then nothing that comes for it means anything any more.

use std::collections::VecDeque;

use hamlyn_abi::kernel::well_known::HAMLYN_WELL_KNOWN_SLOTS;
use hamlyn_abi::kernel::wire::*;
use hamlyn_abi::uapi::*;
use rustix::io::Errno;
use zerocopy::FromZeros;

use super::peer::Message;
use super::{Action, Connection, Listener, MAX_COUNT, System};

impl System {
    /// Those with a host that have not ended, in the order in which they began.
    pub(super) fn connections_with(&self, host: u32) -> Vec<u32> {
        let live = self.connections.iter().filter(|(_, one)| one.peer == host && one.is_live());
        live.map(|(number, _)| *number).collect()
    }

    fn is_full(&self) -> bool {
        self.connections.len() + self.listeners.len() >= MAX_COUNT
    }

    fn create(&mut self, peer: u32, state: u32) -> Result<u32, Errno> {
        if self.is_full() {
            return Err(Errno::NOSPC);
        }
        // Numbers come back late, so that what is late is not taken for another's.
        let number = self.next_number;
        self.next_number += 1;
        self.watch(peer);
        let connection = Connection {
            peer,
            state,
            reason: 0,
            remote: 0,
            asked: state == HAMLYN_CONNECTION_CONNECTING,
            question: false,
            listener: None,
            held: true,
            private: Vec::new(),
        };
        self.connections.insert(number, connection);
        Ok(number)
    }

    /// Forgets a connection that nobody holds, and of which nothing is still to be said.
    pub(super) fn sweep(&mut self, number: u32) {
        let Some(connection) = self.connections.get(&number) else { return };
        let queue = &self.peers[connection.peer as usize].queue;
        let spoken_of = queue.iter().any(|message| message.connection == Some(number));
        if !connection.held && !connection.is_live() && !spoken_of {
            self.connections.remove(&number);
        }
    }

    fn leave_listener(&mut self, number: u32) -> bool {
        let left = self.connections.get_mut(&number).and_then(|connection| connection.listener.take());
        if let Some(listener) = left.and_then(|listener| self.listeners.get_mut(&listener)) {
            listener.requests.retain(|request| *request != number);
        }
        self.actions.extend(left.map(|listener| Action::Requests { listener }));
        left.is_some()
    }

    /// It is over, for this reason.
    pub(super) fn end(&mut self, number: u32, reason: u32) {
        let unclaimed = self.leave_listener(number);
        if let Some(connection) = self.connections.get_mut(&number) {
            (connection.reason, connection.state) = (reason, HAMLYN_CONNECTION_ENDED);
            self.actions.push(Action::Decided { connection: number });
            // Nobody has been told of it, and nobody need be.
            connection.held &= !unclaimed;
        }
        self.sweep(number);
    }

    fn say(&mut self, number: u32, opening: bool, kind: u32, reason: u32, private: &[u8]) {
        let Some(Connection { peer, remote, .. }) = self.connections.get(&number) else { return };
        let (peer, to, private_length) = (*peer, *remote, private.len() as u32);
        let wire = HamlynWire { kind, from: number, to, reason, private_length, ..HamlynWire::default() };
        self.send(peer, Message::new(Some(number), opening, wire, private.to_vec()));
    }

    /// Asks for a connection.
    pub fn request(&mut self, host: u32, name: &[u8], private: &[u8]) -> Result<u32, Errno> {
        self.put_request(host, name, private, false)
    }

    /// Asks whether anybody listens under a name. The question stands as a connection does, and ends with the answer.
    pub fn ask(&mut self, host: u32, name: &[u8]) -> Result<u32, Errno> {
        // It has no name of its own: what it asks for is what it passes.
        self.put_request(host, &[], name, true)
    }

    fn put_request(&mut self, host: u32, name: &[u8], private: &[u8], question: bool) -> Result<u32, Errno> {
        if !self.open {
            return Err(Errno::OPNOTSUPP);
        }
        if !self.link {
            return Err(Errno::NETDOWN);
        }
        if host >= HAMLYN_WELL_KNOWN_SLOTS {
            return Err(Errno::HOSTUNREACH);
        }
        let number = self.create(host, HAMLYN_CONNECTION_CONNECTING)?;
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.question = question;
        }
        let peer = self.peer(host);
        peer.requests = peer.requests.wrapping_add(1);
        let wire = HamlynWire {
            request: peer.requests,
            kind: HAMLYN_WIRE_REQUEST,
            from: number,
            name_length: name.len() as u32,
            private_length: private.len() as u32,
            ..HamlynWire::default()
        };
        self.send(host, Message::new(Some(number), true, wire, [name, private].concat()));
        Ok(number)
    }

    /// Accepts or rejects what was asked for.
    pub fn answer(&mut self, number: u32, accept: bool, private: &[u8]) -> Result<(), Errno> {
        let Some(connection) = self.connections.get_mut(&number) else { return Err(Errno::NOTCONN) };
        if connection.state != HAMLYN_CONNECTION_REQUESTED {
            return Err(Errno::NOTCONN);
        }
        if accept {
            connection.state = HAMLYN_CONNECTION_ESTABLISHED;
            self.actions.push(Action::Decided { connection: number });
            self.say(number, true, HAMLYN_WIRE_ACCEPT, 0, private);
        } else {
            self.say(number, true, HAMLYN_WIRE_REJECT, HAMLYN_END_REJECTED, private);
            self.end(number, HAMLYN_END_REJECTED);
        }
        Ok(())
    }

    /// Ends a connection from our side.
    pub fn close(&mut self, number: u32, reason: u32, private: &[u8]) -> Result<(), Errno> {
        let Some(connection) = self.connections.get(&number) else { return Err(Errno::NOTCONN) };
        let Connection { peer, state, question, .. } = *connection;
        match state {
            HAMLYN_CONNECTION_ENDED => return Err(Errno::NOTCONN),
            HAMLYN_CONNECTION_REQUESTED => return self.answer(number, false, private),
            HAMLYN_CONNECTION_CONNECTING if self.withdraw(peer, number) => {}
            // Nobody remembers it.
            _ if question => {}
            _ => self.say(number, false, HAMLYN_WIRE_CLOSE, reason, private),
        }
        self.end(number, reason);
        Ok(())
    }

    /// Its file is closed.
    pub fn release(&mut self, number: u32) {
        // It may have ended already.
        let _ = self.close(number, HAMLYN_END_DIED, &[]);
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.held = false;
        }
        self.sweep(number);
    }

    /// How a connection stands.
    pub fn state(&self, number: u32) -> Option<(u32, u32, u32, &[u8])> {
        let connection = self.connections.get(&number)?;
        Some((connection.state, connection.reason, connection.peer, &connection.private))
    }

    /// The same as a driver tells it. One that there is not has gone with the card.
    pub fn describe(&self, number: u32) -> HamlynConnectionState {
        let mut state = HamlynConnectionState::new_zeroed();
        (state.state, state.reason) = (HAMLYN_CONNECTION_ENDED, HAMLYN_END_CARD_RESET);
        if let Some((is, reason, host, private)) = self.state(number) {
            (state.state, state.reason, state.host) = (is, reason, host);
            state.private_length = private.len() as u32;
            state.data[..private.len()].copy_from_slice(private);
        }
        state
    }

    /// A message says that there is no connection with number `to`.
    fn refuse(&mut self, host: u32, to: u32, reason: u32) {
        let wire = HamlynWire { kind: HAMLYN_WIRE_REJECT, to, reason, ..HamlynWire::default() };
        self.send(host, Message::new(None, true, wire, Vec::new()));
    }

    fn find_listener(&self, name: &[u8]) -> Option<u32> {
        self.listeners.iter().find(|(_, listener)| listener.name == name).map(|(number, _)| *number)
    }

    /// Whether a request has not been taken before, by an earlier incarnation of ours; from now on it has. They come in turn.
    fn is_new(&mut self, host: u32, wire: &HamlynWire) -> bool {
        let (origin, asked) = ((wire.incarnation >> 32) as u32, &mut self.peer(host).asked);
        let again =
            asked.is_some_and(|(of, last)| of == origin && wire.request.wrapping_sub(last) as i32 <= 0);
        if !again {
            *asked = Some((origin, wire.request));
        }
        !again
    }

    fn requested(&mut self, host: u32, wire: &HamlynWire, data: &[u8]) {
        let new = self.is_new(host, wire);
        // A question, which may be answered twice.
        if wire.name_length == 0 {
            let listening = self.find_listener(&data[..wire.private_length as usize]).is_some();
            let answer = if listening { HAMLYN_END_LISTENING } else { HAMLYN_END_NOBODY };
            return self.refuse(host, wire.from, answer);
        }
        if !new {
            // What became of it is forgotten, but a listener may have had it.
            return self.refuse(host, wire.from, HAMLYN_END_HOST_RESET);
        }
        let (name, behind) = data.split_at(wire.name_length as usize);
        let Some(number) = self.find_listener(name) else {
            return self.refuse(host, wire.from, HAMLYN_END_NO_NAME);
        };
        let full = self.listeners[&number].requests.len() >= self.listeners[&number].backlog;
        let created = if full { Err(Errno::NOSPC) } else { self.create(host, HAMLYN_CONNECTION_REQUESTED) };
        let Ok(created) = created else { return self.refuse(host, wire.from, HAMLYN_END_BACKLOG) };
        if let Some(connection) = self.connections.get_mut(&created) {
            connection.remote = wire.from;
            connection.private = behind[..wire.private_length as usize].to_vec();
            connection.listener = Some(number);
        }
        if let Some(listener) = self.listeners.get_mut(&number) {
            listener.requests.push_back(created);
        }
        self.actions.push(Action::Requests { listener: number });
    }

    /// Who asked has gone before it knew our number.
    fn find_remote(&self, host: u32, remote: u32) -> Option<u32> {
        self.connections_with(host).into_iter().find(|number| {
            let connection = &self.connections[number];
            connection.remote == remote && !connection.asked
        })
    }

    fn answered(&mut self, number: u32, wire: &HamlynWire) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let question = connection.question;
        // Nobody accepts a question.
        if wire.kind == HAMLYN_WIRE_ACCEPT && !question {
            connection.remote = wire.from;
            connection.state = HAMLYN_CONNECTION_ESTABLISHED;
            self.actions.push(Action::Decided { connection: number });
            return;
        }
        match wire.reason {
            HAMLYN_END_NO_NAME | HAMLYN_END_BACKLOG | HAMLYN_END_HOST_RESET => self.end(number, wire.reason),
            HAMLYN_END_LISTENING | HAMLYN_END_NOBODY if question => self.end(number, wire.reason),
            _ => self.end(number, HAMLYN_END_REJECTED),
        }
    }

    /// A message from a host, of sound lengths; what makes no sense is not heeded.
    pub(super) fn message(&mut self, host: u32, wire: &HamlynWire, data: &[u8]) {
        if wire.kind == HAMLYN_WIRE_REQUEST {
            if wire.from != 0 {
                self.requested(host, wire, data);
            }
            return;
        }
        let number = match wire.to {
            0 if wire.kind == HAMLYN_WIRE_CLOSE && wire.from != 0 => self.find_remote(host, wire.from),
            to => Some(to),
        };
        let Some(number) = number else { return };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.peer != host || !connection.is_live() {
            return;
        }
        let answers = matches!(wire.kind, HAMLYN_WIRE_ACCEPT | HAMLYN_WIRE_REJECT)
            && connection.state == HAMLYN_CONNECTION_CONNECTING;
        let closes = wire.kind == HAMLYN_WIRE_CLOSE && connection.remote == wire.from;
        if !answers && !closes {
            return;
        }
        connection.private =
            data[wire.name_length as usize..(wire.name_length + wire.private_length) as usize].to_vec();
        if answers {
            return self.answered(number, wire);
        }
        let closed = wire.reason == HAMLYN_END_CLOSED;
        self.end(number, if closed { HAMLYN_END_CLOSED } else { HAMLYN_END_DIED });
    }

    /// Takes a name.
    pub fn listen(&mut self, name: &[u8], backlog: u32) -> Result<u32, Errno> {
        if !self.open {
            return Err(Errno::OPNOTSUPP);
        }
        if self.find_listener(name).is_some() {
            return Err(Errno::ADDRINUSE);
        }
        if self.is_full() {
            return Err(Errno::NOSPC);
        }
        let number = self.next_listener;
        self.next_listener += 1;
        let (name, backlog) = (name.to_vec(), backlog as usize);
        self.listeners.insert(number, Listener { name, backlog, requests: VecDeque::new() });
        Ok(number)
    }

    /// The next request of a listener, which gets a file.
    pub fn claim(&mut self, listener: u32) -> Result<Option<u32>, Errno> {
        let listener = self.listeners.get_mut(&listener).ok_or(Errno::NODEV)?;
        let Some(number) = listener.requests.pop_front() else { return Ok(None) };
        self.leave_listener(number);
        Ok(Some(number))
    }

    /// Gives a name back, and refuses who asked for it.
    pub fn unlisten(&mut self, listener: u32) {
        let Some(open) = self.listeners.get(&listener) else { return };
        for number in open.requests.clone() {
            self.say(number, true, HAMLYN_WIRE_REJECT, HAMLYN_END_NO_NAME, &[]);
            self.end(number, HAMLYN_END_NO_NAME);
        }
        self.listeners.remove(&listener);
    }

    /// How many requests wait for a listener.
    #[must_use]
    pub fn waiting(&self, listener: u32) -> Option<usize> {
        self.listeners.get(&listener).map(|listener| listener.requests.len())
    }

    /// This side goes: gives all names back, and tells its peers that the processes are gone.
    pub fn leave(&mut self) {
        for listener in self.listeners.keys().copied().collect::<Vec<_>>() {
            self.unlisten(listener);
        }
        let live = self.connections.iter().filter(|(_, connection)| connection.is_live());
        for number in live.map(|(number, _)| *number).collect::<Vec<_>>() {
            // It is live, so it can be closed.
            let _ = self.close(number, HAMLYN_END_DIED, &[]);
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.reason = HAMLYN_END_CARD_RESET;
            }
        }
    }

    /// This host cannot be relied upon any more: ends all connections.
    pub fn connections_lost(&mut self, reason: u32) {
        (0..HAMLYN_WELL_KNOWN_SLOTS).for_each(|host| self.peer_lost(host, reason));
    }

    /// The card has stopped: so have connections and listeners.
    pub fn stop(&mut self) {
        self.connections_lost(HAMLYN_END_CARD_RESET);
        self.actions.extend(self.listeners.keys().map(|listener| Action::Requests { listener: *listener }));
        self.listeners.clear();
        self.open = false;
    }
}
