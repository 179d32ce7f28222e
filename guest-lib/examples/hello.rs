//! The first program with a Hamlyn card, which docs/programming.md contains as well.

use hamlyn::protocol::stream::{StreamReceiver, StreamSender};
use hamlyn::{Card, Manager};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Manager::create(&Card::open_default()?)?;
    match std::env::args().nth(1) {
        // The receiver: makes room, prints how to reach it, and prints what arrives.
        None => {
            let mut stream = StreamReceiver::create(&manager)?;
            println!("{}", stream.make_seed()?);
            while let Some(record) = stream.recv()? {
                println!("{}", String::from_utf8_lossy(&record.to_vec()));
                let number = record.number();
                stream.release(number)?;
            }
        }
        // The sender: created from the receiver's seed.
        Some(seed) => {
            let mut stream = StreamSender::from_seed(&manager, &seed.parse()?)?;
            stream.send(b"hello over there")?;
            stream.close()?;
        }
    }
    Ok(())
}
