//! A process that can reach the switch's socket attacks running programs. Programs that do not
//! communicate with it continue.

use std::num::NonZeroU8;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hamlyn::{Card, Message, NotificationQueue, Ticket};
use hamlyn_fabric::{Attached, Header, HostId, Protocol, Request, Traffic, connect};
use hamlyn_lab::Lab;

const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a fetch-and-op packet: sixteen bytes after its header.
const FETCH_BYTES: usize = 40 + 16;

/// The protocol of Hamlyn cards.
const HAMLYN: Protocol = Protocol::of(NonZeroU8::MIN);

/// A card that breaks the rules.
struct Attacker(Attached);

impl Attacker {
    fn attach(lab: &Lab) -> Result<Attacker> {
        let traffic = Traffic { protocol: HAMLYN, ordered: false };
        let request = Request { host: None, traffic, express: false };
        let switch = lab.directory().join("switch.sock");
        Ok(Attacker(connect(&switch, request, PATIENCE).context("the attacker cannot attach")?))
    }

    /// Sends a fetch-and-add to a word of a slot that may not exist, with an invented key. Never
    /// takes the answer.
    fn fetch(&mut self, victim: u16, number: u32) -> Result<bool> {
        let Attached { host, link, .. } = &mut self.0;
        let header = Header { destination: HostId(victim), source: *host, protocol: HAMLYN };
        let Some(room) = link.reserve(header, FETCH_BYTES)? else { return Ok(false) };
        let (slot, entry, key, length, fetch, add) = (0, u32::MAX, [number, 0x5eed], 16, 4, 1);
        let words = [slot, entry, key[0], key[1], 0, length, number, 0, fetch, add, 1, 0, 0, 0];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        room.copy_from(&bytes);
        link.commit();
        Ok(true)
    }

    /// Sends as many as the switch accepts, up to `most`. Returns their number.
    fn flood(&mut self, victim: u16, most: u32) -> Result<u32> {
        for number in 0..most {
            let asked = Instant::now();
            while !self.fetch(victim, number)? {
                // A switch that stops the attacker for this long has good reasons.
                if asked.elapsed() > Duration::from_secs(5) {
                    return Ok(number);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(most)
    }
}

fn open(lab: &Lab, card: usize) -> Result<Card> {
    Ok(Card::open(&format!("vfio-user:{}", lab.card_socket(card)?.display()))?)
}

/// Creates a place for short messages on a card.
fn place(card: &Card) -> Result<(hamlyn::Slot, NotificationQueue, Ticket)> {
    let (area, queue) = (card.create_area(4096)?, card.create_queue(512)?);
    let slot = card.slot(&area).queue(&queue).interrupt(true).create()?;
    let ticket = slot.fast_ticket()?;
    Ok((slot, queue, ticket))
}

fn messages_pass(from: &Card, to: &Ticket, queue: &NotificationQueue) -> Result<()> {
    let terminus = from.create_terminus()?;
    for number in 0..300 {
        terminus.send(&Message::to(to).word(number), b"past it")?.wait_timeout(PATIENCE)?;
        queue.recv_timeout(PATIENCE)?;
    }
    Ok(())
}

#[test]
fn untaken_answers_of_attacker_block_no_other_card() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).switch_args(["--stall-timeout", "0"]);
    let lab = lab.card_args(["--handshake", "0"]).start()?;
    let (victim, other) = (open(&lab, 0)?, open(&lab, 1)?);
    let ((_at_victim, victims, to_victim), (_at_other, others, to_other)) = (place(&victim)?, place(&other)?);
    let mut attacker = Attacker::attach(&lab)?;
    let asked = attacker.flood(0, 200_000)?;
    ensure!(asked > 20_000, "the attacker was held up after {asked}");
    messages_pass(&victim, &to_other, &others)?;
    messages_pass(&other, &to_victim, &victims)?;
    let counters = lab.card_counters(0)?;
    ensure!(lab.refused(0)? >= u64::from(asked) / 2, "{asked} asked, {counters}");
    Ok(())
}

/// The switch's socket accepts cards of other programs. Data that is not a packet ends only the
/// sender's own link.
#[test]
fn switch_survives_nonsense_on_its_socket() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).card_args(["--handshake", "0"]).start()?;
    let (one, other) = (open(&lab, 0)?, open(&lab, 1)?);
    let (_slot, queue, ticket) = place(&other)?;
    let switch = lab.directory().join("switch.sock");
    for _ in 0..200 {
        shout(&switch)?;
    }
    messages_pass(&one, &ticket, &queue)?;
    lab.check()
}

fn shout(switch: &Path) -> Result<()> {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
    let nonsense = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None)?;
    connect(&nonsense, &SocketAddrUnix::new(switch)?)?;
    // The switch may have refused the connection before the send.
    let _ = send(&nonsense, b"let me in", SendFlags::NOSIGNAL);
    Ok(())
}
