//! The first program of docs/programming.md, which has the same text.

use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::{Card, Manager};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Manager::create(&Card::open_default()?)?;
    match std::env::args().nth(1) {
        // The receiver: makes room, says how to get there, and prints what comes.
        None => {
            let mut stream = StreamReceiver::create(&manager)?;
            println!("{}", stream.make_seed()?);
            while let Some(record) = stream.receive(None)? {
                println!("{}", String::from_utf8_lossy(&record.to_vec()));
                let number = record.number();
                stream.release(number)?;
            }
        }
        // The sender: grows from the receiver's seed.
        Some(seed) => {
            let mut stream = StreamSender::from_seed(&manager, &seed.parse()?)?;
            stream.send(b"hello over there")?;
            stream.close(None)?;
        }
    }
    Ok(())
}
