//! The expected effects of messages in flight.

use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::statistics::EchoStatistic;
use hamlyn_abi::echo::window::{ECHO_MAX_MESSAGE, ECHO_OUTBOX_TAKEN};
use hamlyn_card::ports::{Packet, VolatileSlice};

use crate::engine::memory::Write;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::machine::Inbox;
use super::mailbox::{Deposited, Letter};
use super::model::Echo;

/// Size of a packet's header, which holds the destination and source mailboxes.
const HEADER: usize = 8;

/// Returns the expected effect of a packet: the counter, and the mailbox if it is deposited.
fn fate(world: &World<Echo>, host: usize, packet: &[u8]) -> Result<(EchoStatistic, Option<u32>), Violation> {
    let machine = &world.hosts[host].machine;
    let sound = (HEADER..=HEADER + ECHO_MAX_MESSAGE as usize).contains(&packet.len());
    if !machine.is_enabled()? || !sound {
        return Ok((EchoStatistic::Discarded, None));
    }
    let mailbox = u32::from_le_bytes([packet[0], packet[1], packet[2], packet[3]]);
    let Some(inbox) = machine.inbox(mailbox) else { return Ok((EchoStatistic::NoMailbox, None)) };
    let owner = &world.hosts[host].processes[mailbox as usize];
    let waiting = owner.arrived.wrapping_sub(machine.word(mailbox, ECHO_OUTBOX_TAKEN));
    if waiting >= inbox.records {
        return Ok((EchoStatistic::InboxFull, None));
    }
    Ok((EchoStatistic::Received, Some(mailbox)))
}

impl World<Echo> {
    /// Hands a packet to its card.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived) -> Result<(), Violation> {
        let Arrived { source, mut bytes } = arrived;
        let is_it = |letter: &Letter| {
            (letter.source, usize::from(letter.destination)) == (source, host) && letter.packet == bytes
        };
        // Of two equal packets, the one that cannot have been lost is taken first.
        let flying = self.model.flying.iter().enumerate().filter(|(_, letter)| is_it(letter));
        let known = flying.min_by_key(|(_, letter)| letter.excused).map(|(index, _)| index);
        let known = known.ok_or_else(|| {
            Violation::new(format!(
                "host {host}: a packet of {} bytes from {source} that nobody sent",
                bytes.len()
            ))
        })?;
        self.model.flying.swap_remove(known);
        let (counter, mailbox) = fate(self, host, &bytes)?;
        let machine = self.hosts[host].machine.clone();
        machine.memory.take_writes();
        let before = machine.counters();
        let packet = Packet { source, bytes: VolatileSlice::from(&mut bytes[..]).into() };
        machine.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        let (writes, after) = (machine.memory.take_writes(), machine.counters());
        let counted = usize::from(counter);
        ensure(after[counted] == before[counted] + 1, || {
            format!("host {host}: a packet was not counted as {counter:?}")
        })?;
        match mailbox {
            Some(mailbox) => self.check_deposit(host, mailbox, source, &bytes, &writes),
            None => ensure(writes.is_empty(), || {
                format!("host {host}: {counter:?}, and yet {} writes", writes.len())
            }),
        }
    }

    /// Checks that the next record holds the message, that nothing else was written, and that its
    /// number came last.
    fn check_deposit(
        &mut self,
        host: usize,
        mailbox: u32,
        source: u16,
        packet: &[u8],
        writes: &[Write],
    ) -> Result<(), Violation> {
        let at = &mut self.hosts[host];
        let machine = at.machine.clone();
        let Some(Inbox { area, records }) = machine.inbox(mailbox) else { return Ok(()) };
        let owner = &mut at.processes[mailbox as usize];
        let place = u64::from((owner.arrived % records) * ECHO_RECORD_SIZE);
        owner.arrived = owner.arrived.wrapping_add(1);
        let (from, data) = (&packet[4..HEADER], &packet[HEADER..]);
        let head = [owner.arrived.to_le_bytes(), u32::from(source).to_le_bytes()].concat();
        let record = [&head, from, &(data.len() as u32).to_le_bytes(), data].concat();
        ensure(area.peek(&machine.memory, place, record.len() as u64) == record, || {
            format!("host {host}: record {} of mailbox {mailbox} is not what was sent", owner.arrived)
        })?;
        let written: usize = writes.iter().map(|write| write.bytes.len()).sum();
        let last = writes.last().map(|write| (write.address, write.bytes.len()));
        ensure(written == record.len() && last == Some((area.address(place), 4)), || {
            format!(
                "host {host}: {written} bytes were written for a record of {}, its number not last",
                record.len()
            )
        })?;
        owner.inbox.push_back(Deposited {
            source: source.into(),
            mailbox: u32::from_le_bytes([from[0], from[1], from[2], from[3]]),
            data: data.to_vec(),
        });
        Ok(())
    }
}
