//! The periodic handshake that the host must keep (section 2.8), as the driver does in a guest.
//!
//! A host that stops (here: a stopped process) misses it. Its card then starts to discard packets,
//! so that the fabric stays live. When the host continues, it notices this and enables its card
//! again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hamlyn_abi::family::control::*;

use super::client::Client;
use super::message::REGION_BAR0;

/// The thread that keeps the handshake. Dropping this stops the thread.
#[derive(Debug)]
pub(crate) struct Handshake {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Handshake {
    /// Enables the card, and keeps its handshake if the card requires one. Counts missed periods in
    /// `lapses`.
    pub(crate) fn start(client: &Arc<Client>, lapses: Arc<AtomicU32>) -> io::Result<Self> {
        let period = client.read_u32(REGION_BAR0, ULN_REG_HANDSHAKE_TIMEOUT)?;
        let begun = Instant::now();
        client.write_u32(REGION_BAR0, ULN_REG_CONTROL, ULN_CONTROL_ENABLE)?;
        if period == 0 {
            return Ok(Self { stop: None, thread: None });
        }
        let (stop, stopped) = channel();
        let period = Duration::from_millis(period.into());
        let keeper = Keeper { client: client.clone(), lapses, period, last: begun };
        let thread = std::thread::Builder::new().name("hamlyn-handshake".into());
        Ok(Self { stop: Some(stop), thread: Some(thread.spawn(move || keeper.run(&stopped))?) })
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Keeper {
    client: Arc<Client>,
    lapses: Arc<AtomicU32>,
    period: Duration,
    /// Not later than the last restart of the card's timer.
    last: Instant,
}

impl Keeper {
    /// Runs until stopped, or until the card is gone.
    fn run(mut self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(self.period / 4) == Err(RecvTimeoutError::Timeout) && self.keep().is_ok() {
        }
    }

    /// Restarts the timer. This is a single store, unless the timer may have expired before.
    fn keep(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        self.client.write_u32(REGION_BAR0, ULN_REG_HANDSHAKE, 1)?;
        if self.last.elapsed() >= self.period {
            let control = self.client.read_u32(REGION_BAR0, ULN_REG_CONTROL)?;
            if control & ULN_CONTROL_ENABLE == 0 {
                self.client.write_u32(REGION_BAR0, ULN_REG_CONTROL, ULN_CONTROL_ENABLE)?;
                self.lapses.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.last = begun;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use zerocopy::{FromBytes, IntoBytes};

    use super::super::message::*;
    use super::*;

    /// Starts a card that answers every register read with `value`, and reports each write until
    /// its client is gone.
    fn registers(value: u32) -> (Arc<Client>, Receiver<(u64, u32)>) {
        let (client, mut card) = UnixStream::pair().unwrap();
        let (tell, written) = channel();
        std::thread::spawn(move || {
            let mut head = [0; size_of::<Header>()];
            while card.read_exact(&mut head).is_ok() {
                let mut header = Header::read_from_bytes(&head).unwrap();
                let mut body = vec![0; header.size as usize - head.len()];
                card.read_exact(&mut body).unwrap();
                if header.command == VERSION {
                    body = b"\0\0\0\0{}\0".to_vec();
                } else if header.command == REGION_READ {
                    body.extend(value.to_le_bytes());
                } else {
                    let (access, data) = RegionAccess::read_from_prefix(&body).unwrap();
                    // The test may have dropped the receiver.
                    let _ = tell.send((access.offset, u32::from_le_bytes(data.try_into().unwrap())));
                }
                header.flags = FLAGS_REPLY;
                header.size = (head.len() + body.len()) as u32;
                card.write_all(header.as_bytes()).unwrap();
                card.write_all(&body).unwrap();
            }
        });
        (Arc::new(Client::negotiate(client).unwrap()), written)
    }

    const BEAT: (u64, u32) = (ULN_REG_HANDSHAKE as u64, 1);
    const ENABLED: (u64, u32) = (ULN_REG_CONTROL as u64, ULN_CONTROL_ENABLE);

    /// Returns the writes of two beats. The first beat is `late` after the previous one, and
    /// CONTROL reads as `control`.
    fn two_beats(late: Duration, control: u32) -> Vec<(u64, u32)> {
        let (client, written) = registers(control);
        let last = Instant::now().checked_sub(late).unwrap();
        let lapses = Arc::<AtomicU32>::default();
        let mut keeper = Keeper { client, lapses: lapses.clone(), period: Duration::from_secs(3600), last };
        keeper.keep().unwrap();
        keeper.keep().unwrap();
        drop(keeper);
        let written: Vec<_> = written.iter().collect();
        let enabled = written.iter().filter(|write| **write == ENABLED).count();
        assert_eq!(lapses.load(Ordering::Relaxed) as usize, enabled, "each is told of");
        written
    }

    #[test]
    fn discarding_card_is_enabled_again() {
        let (in_time, late) = (Duration::ZERO, Duration::from_secs(3600));
        assert_eq!(two_beats(in_time, 0), [BEAT, BEAT], "a beat in time is a store and nothing else");
        assert_eq!(two_beats(late, ULN_CONTROL_ENABLE), [BEAT, BEAT], "late, but the card did not notice");
        assert_eq!(two_beats(late, 0), [BEAT, ENABLED, BEAT]);
    }

    #[test]
    fn the_thread_beats_and_stops() {
        let (client, written) = registers(4);
        let handshake = Handshake::start(&client, Arc::default()).unwrap();
        assert_eq!([written.recv(), written.recv()], [Ok(ENABLED), Ok(BEAT)]);
        drop((handshake, client));
        // The thread ends with the card, which has no client then.
        assert!(written.iter().all(|write| write == BEAT || write == ENABLED));
    }

    #[test]
    fn a_card_without_a_timer_is_left_alone() {
        let (client, written) = registers(0);
        let handshake = Handshake::start(&client, Arc::default()).unwrap();
        assert!(handshake.thread.is_none());
        drop((handshake, client));
        assert_eq!(written.iter().collect::<Vec<_>>(), [ENABLED]);
    }
}
