//! A mailbox from its owner's view.

use hamlyn_abi::echo::inbox::ECHO_RECORD_SIZE;
use hamlyn_abi::echo::window::*;

use crate::engine::violation::{Violation, ensure};
use crate::engine::world::World;

use super::mailbox::{Deposited, Letter, Owner, packet};
use super::model::Echo;

impl World<Echo> {
    fn owner(&mut self, host: usize, mailbox: usize) -> &mut Owner {
        &mut self.hosts[host].processes[mailbox]
    }

    /// Fills in the next message and rings, if the card has completed the last one. Returns whether
    /// it rang.
    pub(super) fn ring(&mut self, host: usize, mailbox: usize) -> Result<bool, Violation> {
        let machine = self.hosts[host].machine.clone();
        let owner = self.owner(host, mailbox);
        let number = owner.mailbox;
        if owner.rung_for.is_some() {
            return Ok(false);
        }
        let Some((destination, to, data)) = owner.plans.pop_front() else { return Ok(false) };
        let length = data.len() as u32;
        for (word, value) in
            [(ECHO_OUTBOX_DESTINATION, destination), (ECHO_OUTBOX_MAILBOX, to), (ECHO_OUTBOX_LENGTH, length)]
        {
            machine.set_word(number, word, value);
        }
        let start = u64::from(number * ECHO_OUTBOX_SIZE + ECHO_OUTBOX_DATA);
        let room = data.len().min((ECHO_OUTBOX_SIZE - ECHO_OUTBOX_DATA) as usize);
        machine.window().poke(start, &data[..room]);
        machine.ring(number)?;
        let result = match u16::try_from(destination) {
            Err(_) => Err(ECHO_RESULT_BAD_HOST),
            Ok(_) if length > ECHO_MAX_MESSAGE => Err(ECHO_RESULT_BAD_LENGTH),
            Ok(destination) => Ok(destination),
        };
        let owner = self.owner(host, mailbox);
        let before = owner.rung;
        owner.rung = owner.rung.wrapping_add(1);
        let (expected, sent) = match result {
            Err(result) => (owner.rung, Some(result)),
            Ok(destination) => {
                let packet = packet(to, number, &data);
                owner.rung_for = Some(Letter { source: host as u16, destination, packet, excused: false });
                (before, None)
            }
        };
        let said = (machine.word(number, ECHO_OUTBOX_SENT), machine.word(number, ECHO_OUTBOX_RESULT));
        ensure(said.0 == expected && sent.is_none_or(|result| result == said.1), || {
            format!(
                "host {host}: mailbox {number} says {said:?} after ring {before} for {length} bytes to {destination}"
            )
        })?;
        // Later writes of the owner to the outbox must have no effect.
        if self.rng.percent(30) {
            let scribble = self.rng.bytes(16);
            machine.window().poke(u64::from(number * ECHO_OUTBOX_SIZE), &scribble[..12]);
            machine.window().poke(start, &scribble);
        }
        Ok(true)
    }

    /// Checks a packet that has left the card: it must be the one that its owner rang for.
    pub(super) fn note_sent(
        &mut self,
        host: usize,
        destination: u16,
        packet: &[u8],
    ) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let from = packet.get(4..8).map(|from| u32::from_le_bytes([from[0], from[1], from[2], from[3]]));
        let rung = |owner: &&mut Owner| Some(owner.mailbox) == from;
        let owner = self.hosts[host].processes.iter_mut().find(rung);
        let owner = owner.ok_or_else(|| Violation::new(format!("host {host}: a packet from no mailbox")))?;
        let letter = owner.rung_for.take();
        let letter = letter.filter(|letter| letter.destination == destination && letter.packet == packet);
        let number = owner.mailbox;
        let said = (machine.word(number, ECHO_OUTBOX_SENT), machine.word(number, ECHO_OUTBOX_RESULT));
        ensure(said == (owner.rung, ECHO_RESULT_SENT), || {
            format!("host {host}: mailbox {number} says {said:?} of what was sent")
        })?;
        let letter = letter.ok_or_else(|| {
            Violation::new(format!("host {host}: mailbox {number} sent what was not rung for"))
        })?;
        // The switch drops packets for a port without a card.
        let absent = self.hosts.get(usize::from(destination)).is_some_and(|there| !there.uplink.is_up());
        self.model.flying.push(Letter { excused: absent, ..letter });
        Ok(())
    }

    /// Takes the next message. Returns whether there was one.
    pub(super) fn take_next(&mut self, host: usize, mailbox: usize) -> Result<bool, Violation> {
        let machine = self.hosts[host].machine.clone();
        let owner = self.owner(host, mailbox);
        let Some(inbox) = machine.inbox(owner.mailbox) else { return Ok(false) };
        let place = u64::from((owner.taken % inbox.records) * ECHO_RECORD_SIZE);
        let word = |at| machine.memory.peek_u32(inbox.area.address(place + at));
        let next = owner.taken.wrapping_add(1);
        let Some(expected) = owner.inbox.pop_front() else {
            return ensure(word(0) != next, || format!("host {host}: message {next} that never came"))
                .map(|()| false);
        };
        let data = inbox.area.peek(&machine.memory, place + 16, word(12).into());
        let found = Deposited { source: word(4), mailbox: word(8), data };
        ensure(word(0) == next && found == expected, || {
            format!("host {host}: message {next} has changed since it came")
        })?;
        owner.taken = next;
        machine.set_word(owner.mailbox, ECHO_OUTBOX_TAKEN, next);
        self.model.taken += 1;
        Ok(true)
    }

    /// Puts the owner to sleep until there is a message, unless there is one now.
    pub(super) fn sleep(&mut self, host: usize, mailbox: usize) {
        let machine = self.hosts[host].machine.clone();
        let owner = self.owner(host, mailbox);
        machine.arm(owner.mailbox, true);
        owner.asleep = owner.inbox.is_empty();
        if !owner.asleep {
            machine.arm(owner.mailbox, false);
        }
    }

    /// Wakes the owners that the card has fired for, as the driver. Returns whether there were any.
    pub(super) fn wake(&mut self, host: usize) -> bool {
        let machine = self.hosts[host].machine.clone();
        let fired = machine.interrupts();
        for mailbox in &fired {
            machine.arm(*mailbox, false);
            self.owner(host, *mailbox as usize).asleep = false;
        }
        !fired.is_empty()
    }

    /// Replaces an owner that died: its successor gets the mailbox, without any state of the first.
    pub(super) fn succeed(&mut self, host: usize, mailbox: usize, records: u32) -> Result<(), Violation> {
        let machine = self.hosts[host].machine.clone();
        let number = mailbox as u32;
        if machine.inbox(number).is_some() {
            machine.close(number)?;
        }
        machine.arm(number, false);
        machine.open(number, records)?;
        *self.owner(host, mailbox) = Owner { mailbox: number, ..Owner::default() };
        Ok(())
    }
}
