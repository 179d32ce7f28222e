//! Honest messages of all kinds, chosen by the seed.

use hamlyn::{Error, Share, Ticket, TicketFlags};
use hamlyn_abi::hamlyn::command::{HAMLYN_MODE_NORMAL, HAMLYN_MODE_PARANOID_ONE_SHOT};
use hamlyn_abi::hamlyn::request::HAMLYN_MAX_METADATA;

use crate::engine::rng::Rng;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::ledger::{NewPart, Place};
use crate::hamlyn::numbers::Numbers;
use crate::hamlyn::outlet::{Again, Errand};
use crate::hamlyn::process::Process;

/// Maximum number of data bytes in a message: what send buffers can hold.
const MOST: u32 = 2600;

/// Destination of a message: offset, number of bytes there, and its Y.
type Portion = (u32, u32, u32);
/// What a sender needs: a ticket, and its share if it has one of a group.
type Invitation = (Ticket, Option<Share>);
/// Messages, and what their senders need.
type Arrangement = (Vec<NewPart>, Vec<Invitation>);

/// Makes messages, and the changes of receivers that they meet.
pub(super) struct Composer<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
    pub(super) sent_once: &'a mut Vec<Again>,
    pub(super) numbers: &'a mut Numbers,
}

impl Composer<'_> {
    /// Makes a delivery to a free place: a message, or a group of them.
    pub(super) fn compose(&mut self) -> Result<(), Violation> {
        let free = self.ledger.free_places();
        let Some(number) = self.around.rng.pick(&free) else { return Ok(()) };
        let place = self.ledger.places[number].clone();
        let chosen = self.choose_senders(&place);
        if chosen.is_empty() {
            return Ok(());
        }
        let (silent, interrupt) = (self.around.rng.percent(15), self.asks_for_interrupt(&place));
        let mut flags = TicketFlags::default();
        // The message sets the flags that the ticket does not.
        for (wish, flag) in [(silent, TicketFlags::SILENT), (interrupt, TicketFlags::INTERRUPT)] {
            if wish && self.around.rng.percent(50) {
                flags = flags | flag;
            }
        }
        let Some((parts, invitations)) = self.arrange(&place, &chosen, flags)? else { return Ok(()) };
        let parts = self.ledger.enter(number, silent, interrupt, parts);
        self.around.note(|| {
            let hosts: Vec<usize> = chosen.iter().map(|(host, _)| *host).collect();
            format!(
                "parts {parts:?} of hosts {hosts:?} to host {} slot {} entry {:?} silent {silent}",
                place.host, place.slot, place.entry
            )
        });
        let receiver = self.around.hosts[place.host].machine.slot(place.slot);
        let one_shot = receiver.is_some_and(|slot| slot.mode == HAMLYN_MODE_PARANOID_ONE_SHOT);
        for (((host, process), part), (ticket, share)) in chosen.into_iter().zip(parts).zip(invitations) {
            let Some(program) = self.around.hosts[host].program_mut(process) else { continue };
            program.outbox.push_back(Errand { part, ticket, share, again: false });
            if one_shot {
                let pid = self.around.hosts[host].processes[process].pid;
                self.sent_once.push((host, pid, Errand { part, ticket, share: None, again: true }));
            }
        }
        let down = self.around.down();
        self.ledger.excuse(|host, _| down.contains(&host));
        Ok(())
    }

    fn choose_senders(&mut self, place: &Place) -> Vec<(usize, usize)> {
        let (senders, fast) = (self.around.senders(), place.entry.is_none());
        let mut chosen: Vec<(usize, usize)> = match self.around.rng.below(100) {
            below if below < self.around.scenario.floods && !fast => {
                vec![self.around.rng.pick(&senders); 80].into_iter().flatten().collect()
            }
            below if fast || below < 65 => self.around.rng.pick(&senders).into_iter().collect(),
            _ => (0..self.around.rng.range(2, 4)).filter_map(|_| self.around.rng.pick(&senders)).collect(),
        };
        if place.length < 8 * chosen.len() as u32 {
            chosen.truncate(1);
        }
        chosen
    }

    /// Returns whether a message asks for an interrupt. A receiver that may sleep must be woken, by
    /// the slot or by the message.
    fn asks_for_interrupt(&mut self, place: &Place) -> bool {
        let host = &self.around.hosts[place.host];
        let receiver = host.processes.iter().find(|process| process.pid == place.pid);
        let interrupting = receiver.and_then(Process::program).is_some_and(|program| program.interrupting);
        let slot_interrupts = host.machine.slot(place.slot).is_some_and(|slot| slot.interrupt);
        (interrupting && !slot_interrupts) || self.around.rng.percent(20)
    }

    /// Divides a place among senders, and makes a ticket for each. A group is divided by the
    /// library, or by hand.
    fn arrange(
        &mut self,
        place: &Place,
        chosen: &[(usize, usize)],
        flags: TicketFlags,
    ) -> Result<Option<Arrangement>, Violation> {
        let Place { start, length, .. } = *place;
        if chosen.len() > 1 && self.around.rng.percent(60) {
            let Some(ticket) = self.expect(place, start, start + length)? else { return Ok(None) };
            let ticket = Ticket { flags, ..ticket };
            let ticket = ticket.part(start - ticket.base, length).map_err(Violation::new)?;
            let shares = share_out(self.around.rng, ticket, chosen.len())?;
            let portions: Vec<Portion> = shares
                .iter()
                .map(|share| (share.ticket().base, share.len(), share.counter() as u32))
                .collect();
            let parts = self.divide(chosen, &portions, false);
            let invitations = shares.into_iter().map(|share| (*share.ticket(), Some(share))).collect();
            return Ok(Some((parts, invitations)));
        }
        let fast = place.entry.is_none();
        let portions = self.portions(place, chosen.len() as u32);
        let parts = self.divide(chosen, &portions, fast);
        let low = parts.iter().map(|part| part.offset).min().unwrap_or(0);
        let high = parts.iter().map(|part| part.offset + part.data.len() as u32).max().unwrap_or(0);
        let Some(ticket) = self.expect(place, low, high)? else { return Ok(None) };
        let ticket = Ticket { flags, ..ticket };
        let mut invitations = Vec::new();
        for (start, length, _) in portions {
            // As far as it is open.
            let (from, to) = (start.max(ticket.base), (start + length).min(ticket.base + ticket.length));
            let part = ticket.part(from - ticket.base, to - from).map_err(Violation::new)?;
            invitations.push((pass_on(self.around.rng, part)?, None));
        }
        Ok(Some((parts, invitations)))
    }

    /// Sends a message again that has been received in one-shot mode. It must not arrive twice
    /// (section 2.7).
    pub(super) fn send_again(&mut self) {
        if self.sent_once.is_empty() {
            return;
        }
        let (host, pid, errand) = self.sent_once.swap_remove(self.around.rng.index(self.sent_once.len()));
        let delivery = self.ledger.parts[errand.part].delivery;
        let sender = self.around.hosts[host].processes.iter_mut().find(|process| process.pid == pid);
        if let Some(program) = sender.and_then(Process::program_mut) {
            if self.ledger.deliveries[delivery].is_whole() {
                program.outbox.push_back(errand);
            } else {
                self.sent_once.push((host, pid, errand));
            }
        }
    }

    /// Returns equal parts of a place's memory, with unequal parts of its counter (section 2.5).
    /// The Y of a group add up to 2^32, and each is larger than the number of its message's
    /// packets. A single message has 0, or a word in fast mode.
    fn portions(&mut self, place: &Place, count: u32) -> Vec<Portion> {
        let length = place.length / count;
        let mut rest = 0_u32;
        let mut portions = Vec::new();
        for index in 0..count {
            let y = match index + 1 == count {
                _ if place.entry.is_none() => self.numbers.word(),
                true => rest.wrapping_neg(),
                // Their sum stays below 2^32.
                false => self.around.rng.range(16, (1 << 31) / count),
            };
            rest = rest.wrapping_add(y);
            portions.push((place.start + length * index, length, y));
        }
        portions
    }

    /// Makes the messages: each sender's is in its portion, with any length and at any offset.
    fn divide(&mut self, senders: &[(usize, usize)], portions: &[Portion], fast: bool) -> Vec<NewPart> {
        let mut parts = Vec::new();
        for ((host, process), (start, share, y)) in senders.iter().zip(portions.iter().copied()) {
            let packet_size = self.around.hosts[*host].machine.options.packet_size;
            let most = if fast { share.min(packet_size) } else { share.min(MOST) };
            // Sizes close to a packet's are the most interesting.
            let length = match self.around.rng.below(6) {
                0 => 0,
                1 => most,
                2 => (packet_size * self.around.rng.range(1, 3)).min(most),
                3 => (packet_size + self.around.rng.range(0, 2)).saturating_sub(1).min(most),
                _ => self.around.rng.range(0, most),
            };
            // A group has one metadata entry, which one of its messages fills.
            let metadata =
                if fast || !parts.is_empty() { 0 } else { self.around.rng.range(0, HAMLYN_MAX_METADATA) };
            parts.push(NewPart {
                host: *host,
                pid: self.around.hosts[*host].processes[*process].pid,
                offset: start + self.around.rng.range(0, share - length),
                data: self.around.rng.bytes(length as usize),
                metadata: self.around.rng.bytes(metadata as usize),
                y,
                packet_size,
            });
        }
        parts
    }

    /// Shuts an entry while a message for it is in flight, as a receiver in a paranoid mode. The
    /// rest of the message must be refused.
    pub(super) fn shut(&mut self) -> Result<(), Violation> {
        let busy: Vec<usize> = (0..self.ledger.places.len())
            .filter(|place| self.ledger.places[*place].busy.is_some() && !self.ledger.places[*place].gone)
            .collect();
        let Some(number) = self.around.rng.pick(&busy) else { return Ok(()) };
        let Place { host, pid, slot, entry, busy, .. } = self.ledger.places[number].clone();
        let receiver = self.around.hosts[host].processes.iter().find(|process| process.pid == pid);
        let slot = receiver.and_then(Process::program).and_then(|program| program.slot(slot));
        let mode =
            slot.and_then(|slot| self.around.hosts[host].machine.slot(slot.number())).map(|slot| slot.mode);
        let (Some(slot), Some(entry), Some(delivery)) = (slot, entry, busy) else { return Ok(()) };
        if mode == Some(HAMLYN_MODE_NORMAL) || !self.ledger.give_up(delivery) {
            return Ok(());
        }
        let entry = slot.metadata(entry).map_err(Violation::new)?;
        if self.around.rng.percent(50) {
            entry.close();
        } else {
            entry.protect(self.around.rng.next(), entry.opens()).map_err(Violation::new)?;
            ensure(entry.accumulator() == 0, || "a new key starts with an accumulator that is not 0")?;
        }
        // Packets that were counted under the old key must not count for the next message.
        self.ledger.release(delivery);
        self.around.note(|| format!("host {host} shuts the entry of delivery {delivery}"));
        Ok(())
    }

    /// Opens a metadata entry for the coming message, as its receiver (a new key, tight bounds, no
    /// lock), and makes a ticket. Returns `None` if the link is down.
    fn expect(&mut self, place: &Place, low: u32, high: u32) -> Result<Option<Ticket>, Violation> {
        let key = self.around.rng.next();
        let host = &self.around.hosts[place.host];
        let receiver = host.processes.iter().find(|process| process.pid == place.pid);
        let slot = receiver.and_then(Process::program).and_then(|program| program.slot(place.slot));
        let slot = slot.ok_or_else(|| Violation::new("a place has no slot"))?;
        let ticket = match place.entry {
            None => slot.fast_ticket(),
            Some(entry) => {
                let metadata = slot.metadata(entry).map_err(Violation::new)?;
                let opened = host.machine.slot(place.slot);
                if opened.is_some_and(|opened| opened.mode != HAMLYN_MODE_NORMAL) {
                    metadata.protect(key, low.into()..high.into()).map_err(Violation::new)?;
                    metadata.reopen();
                    ensure(
                        metadata.accumulator() == 0,
                        || "an entry opens with an accumulator that is not 0",
                    )?;
                }
                slot.ticket(entry)
            }
        };
        match ticket {
            Err(Error::LinkDown) => {
                ensure(!host.uplink.is_up(), || "a link that is up is said to be down")?;
                Ok(None)
            }
            ticket => ticket.map(Some).map_err(Violation::new),
        }
    }
}

/// Divides a ticket into shares, perhaps through a holder that divides its own share further
/// (section 2.5).
fn share_out(rng: &mut Rng, ticket: Ticket, count: usize) -> Result<Vec<Share>, Violation> {
    let whole = Share::whole(ticket).map_err(Violation::new)?;
    let first = if rng.percent(50) { 1 } else { 1 + rng.index(count) };
    let mut shares = Vec::new();
    for (index, share) in whole.split(first).map_err(Violation::new)?.into_iter().enumerate() {
        let share = if rng.percent(30) {
            Share::from_bytes(&share.to_bytes()).map_err(Violation::new)?
        } else {
            share
        };
        // The last share is divided further, so that there are enough.
        let parts = if index + 1 == first { count - index } else { 1 };
        shares.extend(share.split(parts).map_err(Violation::new)?);
    }
    Ok(shares)
}

/// Passes a ticket on to a sender: unchanged, in its binary form, or as text.
fn pass_on(rng: &mut Rng, ticket: Ticket) -> Result<Ticket, Violation> {
    let passed = match rng.below(6) {
        0 => Ticket::from_bytes(&ticket.to_bytes()).map_err(Violation::new)?,
        1 => ticket.to_string().parse().map_err(Violation::new)?,
        _ => ticket,
    };
    ensure(passed == ticket, || "a ticket says something else after its way")?;
    Ok(passed)
}
