//! A channel between two processes, over any model of card.
//!
//! ```text
//! channel serve        on one machine: echoes every message
//! channel ask TEXT     on another
//! ```

use hamlyn::channel::{Card, Channel, Listener, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let card = Card::open_any()?;
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => {
            let listener = Listener::bind(&card, "channel", Options::default())?;
            println!("host {} serves by its {} card", card.host()?.unwrap_or_default(), card.model());
            loop {
                let Channel { mut sender, mut receiver } = listener.accept()?;
                while let Ok(Some(message)) = receiver.recv() {
                    sender.send(&message.to_vec()?)?;
                }
            }
        }
        ["ask", text] => {
            let mut channel = Channel::connect_any(&card, "channel", Options::default())?;
            channel.sender.send(text.as_bytes())?;
            let answer = channel.receiver.recv()?.ok_or("the server has closed the channel")?;
            println!("{}", String::from_utf8_lossy(&answer.to_vec()?));
            Ok(())
        }
        _ => Err("arguments: serve | ask TEXT".into()),
    }
}
