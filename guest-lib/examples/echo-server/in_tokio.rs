//! The server as a program of `tokio`: one task per client.

use std::io;

use hamlyn::asynchronous::{Hub, Listener, Stream};
use hamlyn::protocol::stream::StreamListener;
use hamlyn::{Error, Manager};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use crate::common::{Outcome, is_gone, print};

pub(crate) fn serve(manager: &Manager, name: &str, clients: usize) -> Outcome {
    Builder::new_current_thread().enable_all().build()?.block_on(run(manager, name, clients))
}

async fn run(manager: &Manager, name: &str, clients: usize) -> Outcome {
    let hub = Hub::start(manager)?;
    let listener = Listener::new(&hub, StreamListener::bind(manager, name)?)?;
    print(&json!({ "listening": name }))?;
    let (ended, mut endings) = mpsc::unbounded_channel();
    tokio::spawn(admit(listener, ended));
    for _ in 0..clients {
        print(&endings.recv().await.ok_or("the card is gone, and the name with it")?)?;
    }
    Ok(())
}

/// Accepts connections until the card is gone.
async fn admit(listener: Listener, ended: mpsc::UnboundedSender<Value>) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                let ended = ended.clone();
                tokio::spawn(async move { ended.send(echo(stream).await) });
            }
            Err(error) if is_gone(&error) => return,
            // A client that cannot be admitted does not affect the others.
            Err(error) => drop(print(&json!({ "refused": error.to_string() }))),
        }
    }
}

/// Sends back everything it receives. Returns the report about the client.
async fn echo(mut stream: Stream) -> Value {
    let mut echoed = 0;
    match echo_all(&mut stream, &mut echoed).await {
        Ok(()) => json!({ "echoed": echoed }),
        Err(error) => {
            let loss = match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(Error::PeerLost(loss)) => loss.to_string(),
                _ => error.to_string(),
            };
            json!({ "echoed": echoed, "lost": loss })
        }
    }
}

async fn echo_all(stream: &mut Stream, echoed: &mut usize) -> io::Result<()> {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let length = stream.read(&mut bytes).await?;
        if length == 0 {
            return stream.shutdown().await;
        }
        stream.write_all(&bytes[..length]).await?;
        // Flushes, because the client may be waiting for these bytes.
        stream.flush().await?;
        *echoed += length;
    }
}
