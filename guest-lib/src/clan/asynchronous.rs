//! Event queues for `tokio` (feature `tokio`).
//!
//! ```no_run
//! use hamlyn::clan::asynchronous::Events;
//! use hamlyn::clan::{Card, Interest};
//!
//! # async fn example() -> std::io::Result<()> {
//! let card = Card::open_default()?;
//! let endpoint = card.endpoint()?;
//! let mut events = Events::new(card.events(1024)?)?;
//! events.queue().register(&endpoint, Interest::ALL, 7)?;
//! loop {
//!     let event = events.recv().await?;
//!     assert_eq!(event.token, 7);
//!     while let Some(message) = endpoint.try_recv_message() {
//!         println!("{:?}", message.from);
//!     }
//! }
//! # }
//! ```

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use ::tokio::io::Interest as Wanted;
use ::tokio::io::unix::AsyncFd;

use super::events::{Event, EventQueue};

/// An event queue for use in asynchronous tasks.
#[derive(Debug)]
pub struct Events {
    queue: EventQueue,
    file: AsyncFd<OwnedFd>,
}

impl Events {
    /// Wraps a queue. Must be called within a `tokio` runtime that has I/O enabled.
    ///
    /// # Errors
    /// The system's errors, if no more files can be opened.
    #[allow(
        deprecated,
        reason = "newer ways are unsafe, for what has a file's number need not own it: this does"
    )]
    pub fn new(queue: EventQueue) -> io::Result<Self> {
        let file = AsyncFd::with_interest(queue.as_fd().try_clone_to_owned()?, Wanted::READABLE)?;
        Ok(Self { queue, file })
    }

    /// Returns the queue, for registrations.
    pub fn queue(&mut self) -> &mut EventQueue {
        &mut self.queue
    }

    /// Takes the next event. Cancel-safe: no event is lost.
    ///
    /// # Errors
    /// The system's errors, if the card is gone.
    pub async fn recv(&mut self) -> io::Result<Event> {
        loop {
            if let Some(event) = self.queue.try_recv() {
                return Ok(event);
            }
            if self.queue.arm()? {
                // The event may belong to another queue of the same card.
                ::tokio::task::yield_now().await;
                continue;
            }
            self.file.readable().await?.clear_ready();
        }
    }
}
