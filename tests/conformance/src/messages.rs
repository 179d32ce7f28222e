//! Numbered messages.

use hamlyn::channel::{Receiver, Sender};

use crate::{LONG, MESSAGES, Outcome};

/// Returns the message with this number.
pub(crate) fn message(number: u64, longest: usize) -> Vec<u8> {
    let length = (number * 7919 % (longest as u64 + 1)) as usize;
    (0..length).map(|at| (number as usize + at * 31) as u8).collect()
}

/// Sends numbered messages, most of them short.
pub(crate) fn send_all(sender: &mut Sender) -> Outcome {
    let longest = sender.longest();
    for number in 0..MESSAGES {
        let longest = if number % 50 == 0 { longest } else { 300 };
        sender.send(&message(number, longest))?;
    }
    Ok(())
}

/// Receives the messages of [`send_all`].
pub(crate) fn receive_all(receiver: &mut Receiver, longest: usize) -> Outcome {
    for number in 0..MESSAGES {
        let longest = if number % 50 == 0 { longest } else { 300 };
        let found = receiver.recv_timeout(LONG)?.ok_or("closed too early")?.to_vec()?;
        if found != message(number, longest) {
            return Err(format!("message {number} has other bytes, {} of them", found.len()).into());
        }
    }
    Ok(())
}
