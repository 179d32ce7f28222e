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
//!     let event = events.next().await?;
//!     assert_eq!(event.token, 7);
//!     while let Some(message) = endpoint.try_message() {
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

/// An event queue whose events a task may wait for.
#[derive(Debug)]
pub struct Events {
    queue: EventQueue,
    file: AsyncFd<OwnedFd>,
}

impl Events {
    /// Takes a queue. Takes a `tokio` runtime with I/O enabled, which this is called in.
    ///
    /// # Errors
    /// Those of the system, if there is no file left.
    #[allow(
        deprecated,
        reason = "newer ways are unsafe, for what has a file's number need not own it: this does"
    )]
    pub fn new(queue: EventQueue) -> io::Result<Self> {
        let file = AsyncFd::with_interest(queue.as_fd().try_clone_to_owned()?, Wanted::READABLE)?;
        Ok(Self { queue, file })
    }

    /// The queue itself, to register with.
    pub fn queue(&mut self) -> &mut EventQueue {
        &mut self.queue
    }

    /// Takes the next event. What is given up meanwhile loses none.
    ///
    /// # Errors
    /// Those of the system, if the card has gone.
    pub async fn next(&mut self) -> io::Result<Event> {
        loop {
            if let Some(event) = self.queue.next() {
                return Ok(event);
            }
            if self.queue.arm()? {
                // It may be another queue's of the same card.
                ::tokio::task::yield_now().await;
                continue;
            }
            self.file.readable().await?.clear_ready();
        }
    }
}
