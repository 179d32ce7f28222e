//! The server sleeps in `tokio`, whose other tasks run meanwhile.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll};

use hamlyn::Manager;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Builder;

use crate::common::Outcome;
use crate::server::Server;

/// A file that is readable when there is something to do.
type File = AsyncFd<OwnedFd>;

pub(crate) fn serve(manager: &Manager, name: &str, clients: usize) -> Outcome {
    Builder::new_current_thread().enable_all().build()?.block_on(run(manager, name, clients))
}

async fn run(manager: &Manager, name: &str, clients: usize) -> Outcome {
    let mut server = Server::open(manager, name)?;
    let (arrivals, requests) = (watch(manager.file()?.as_fd())?, watch(server.file())?);
    loop {
        let nap = server.work(|_, file| watch(file))?;
        if server.served >= clients {
            return Ok(());
        }
        let news = poll_fn(|context| news(&server, [&arrivals, &requests], context));
        match nap {
            None => news.await?,
            Some(nap) => tokio::time::timeout(nap, news).await.unwrap_or(Ok(()))?,
        }
    }
}

/// Newer ways to say so are unsafe, for what has a file's number need not own it: this does.
#[allow(deprecated)]
fn watch(file: BorrowedFd<'_>) -> io::Result<File> {
    AsyncFd::with_interest(file.try_clone_to_owned()?, Interest::READABLE)
}

/// Whether any of the files is readable; else who waits is woken when one is.
fn news(server: &Server<File>, files: [&File; 2], context: &mut Context<'_>) -> Poll<io::Result<()>> {
    let mut news = Poll::Pending;
    let mut look = |file: &File| match file.poll_read_ready(context) {
        // It is readable once: the next that comes says so anew.
        Poll::Ready(ready) => ready.map(|mut ready| ready.clear_ready()).map(|()| true),
        Poll::Pending => Ok(false),
    };
    for file in files {
        if look(file)? {
            news = Poll::Ready(Ok(()));
        }
    }
    for client in server.clients.values() {
        if look(&client.watch)? {
            client.look_for_end();
            news = Poll::Ready(Ok(()));
        }
    }
    news
}
