//! The server sleeps in `mio`.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use hamlyn::Manager;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::common::Outcome;
use crate::server::Server;

/// Token of connection requests.
const LISTENER: Token = Token(usize::MAX - 2);
/// Token of arrivals.
const ARRIVALS: Token = Token(usize::MAX - 1);

pub(crate) fn serve(manager: &Manager, name: &str, clients: usize) -> Outcome {
    let mut server = Server::open(manager, name)?;
    let mut poll = Poll::new()?;
    let registry = poll.registry().try_clone()?;
    let watch = |token, file: BorrowedFd<'_>| {
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)
    };
    watch(ARRIVALS, manager.as_fd())?;
    watch(LISTENER, server.file())?;
    let mut events = Events::with_capacity(64);
    loop {
        server.work(|client, file| watch(Token(client as usize), file))?;
        if server.served >= clients {
            return Ok(());
        }
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        // A client's token is its number.
        events.iter().for_each(|event| server.look_for_end(event.token().0 as u64));
    }
}
