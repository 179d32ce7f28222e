//! Delivers a packet to its card, and checks all effects.

use hamlyn_abi::hamlyn::statistics::Statistic;
use hamlyn_card::ports::{Packet, Pieces, VolatileSlice};

use crate::engine::memory::Write;
use crate::engine::rng::Rng;
use crate::engine::uplink::Arrived;
use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::fetches::Fetches;
use crate::hamlyn::judge::{Effect, PacketHeader, Verdict, judge};
use crate::hamlyn::ledger::Ledger;
use crate::hamlyn::machine::Machine;
use crate::hamlyn::receiving::check_message;
use crate::hamlyn::streams::Streams;

/// Countable state of a card, before or after a packet.
#[derive(Debug)]
struct Counts {
    counters: Vec<u64>,
    /// For each vector, how often it was raised and not yet handled by the driver.
    raised: Vec<usize>,
}

impl Counts {
    fn of(machine: &Machine) -> Self {
        let vectors = 0..machine.options.vectors as u16;
        let raised = vectors.map(|vector| machine.vectors.count(vector)).collect();
        Self { counters: machine.counters(), raised }
    }

    fn of_statistic(&self, statistic: Statistic) -> u64 {
        self.counters[statistic as usize]
    }
}

/// Hands packets to cards.
pub(super) struct Deliverer<'a> {
    pub(super) around: Around<'a>,
    pub(super) ledger: &'a mut Ledger,
    pub(super) fetches: &'a mut Fetches,
    pub(super) streams: &'a mut Streams,
}

impl Deliverer<'_> {
    /// Hands a packet to its card, in pieces. If `loose`, the metadata entry that it names changes
    /// meanwhile.
    pub(super) fn take(&mut self, host: usize, arrived: Arrived, loose: bool) -> Result<(), Violation> {
        let Arrived { source, mut bytes } = arrived;
        let at = self.around.hosts[host].machine.clone();
        let answer = PacketHeader::read(&bytes).filter(PacketHeader::is_answer);
        let awaited = answer.and_then(|header| self.fetches.awaited(host, source.into(), header.delta));
        let verdict = judge(&at, source, &bytes, loose, awaited);
        let before = Counts::of(&at);
        at.memory.take_writes();
        let pieces = cut(&mut Rng::new(self.around.step), VolatileSlice::from(&mut bytes[..]));
        let packet = Packet { source, bytes: Pieces::new(&pieces) };
        at.with_card(|card, ports| card.packet_arrived(ports, &packet))?;
        at.memory.plan_mischief(None);
        let writes = at.memory.take_writes();
        let after = Counts::of(&at);
        check_fate(&verdict, loose, &before, &after)
            .map_err(|violation| Violation::new(format!("host {host}: {violation}")))?;
        match verdict {
            Verdict::Counted(reason) => {
                self.not_taken(host, source, &bytes, reason)?;
                self.around.note(|| format!("host {host} refuses a packet from {source}: {}", reason.name()));
                ensure(writes.is_empty(), || {
                    format!("host {host}: {} writes for a packet that is refused", writes.len())
                })
            }
            Verdict::Accepted(effect) => {
                let header = effect.header;
                self.around.note(|| format!("host {host} takes a packet from {source}: {header:?}"));
                self.check_accepted(host, &effect, &writes, &before, &after)?;
                self.check_message_of(host, source, &effect, &bytes)
            }
            Verdict::Fetched(fetched) => {
                self.around
                    .note(|| format!("host {host} carries out a fetch-and-op of {source}: {fetched:?}"));
                let fate = fetched.check(&at, &writes)?;
                let header = PacketHeader::read(&bytes);
                let honest = header.and_then(|header| at.slot(header.slot)).is_some_and(|slot| !slot.prey);
                self.fetches.arrived(host, source.into(), &bytes, fate, honest)
            }
            Verdict::Retracted(retracted) => {
                let header = PacketHeader::read(&bytes).unwrap_or_default();
                self.around.note(|| format!("host {host} takes back packets of {source}: {header:?}"));
                retracted.check(&at, &writes)?;
                if !retracted.loose {
                    self.ledger.retracted(host, source, &header);
                }
                Ok(())
            }
            Verdict::Answered(answered) => {
                self.around.note(|| format!("host {host} takes an answer of {source}"));
                answered.check(&at, &writes)?;
                self.fetches.answered(host, source.into(), &bytes)
            }
        }
    }

    /// Accounts for a packet that was refused or discarded, on behalf of its sender.
    fn not_taken(
        &mut self,
        host: usize,
        source: u16,
        packet: &[u8],
        reason: Statistic,
    ) -> Result<(), Violation> {
        let fetch = PacketHeader::read(packet).is_some_and(|header| header.is_fetch());
        match reason {
            Statistic::Discarded => {
                self.ledger.discarded(host, source, packet);
                self.streams.excuse(host);
                self.fetches.missed(host, source.into(), packet, false);
            }
            Statistic::RefusedAnswer => self.fetches.missed(host, source.into(), packet, true),
            Statistic::RefusedPacket => {}
            _ if fetch => self.fetches.arrived(host, source.into(), packet, Err(()), false)?,
            _ => {}
        }
        Ok(())
    }

    /// Checks that the card wrote, counted and raised exactly what the judge expects.
    fn check_accepted(
        &mut self,
        host: usize,
        effect: &Effect,
        writes: &[Write],
        before: &Counts,
        after: &Counts,
    ) -> Result<(), Violation> {
        effect.check(&self.around.hosts[host].machine, writes)?;
        effect.check_counters(&before.counters, &after.counters)?;
        let Some(notification) = &effect.notification else { return Ok(()) };
        let grown =
            after.of_statistic(Statistic::Notifications) - before.of_statistic(Statistic::Notifications);
        if let Some(queue) = &mut self.around.hosts[host].machine.tables().queues[notification.queue as usize]
        {
            queue.written += grown;
        }
        let due = |vector: usize| usize::from(notification.interrupt.map(usize::from) == Some(vector));
        let wrong = (0..before.raised.len())
            .find(|vector| after.raised[*vector] != before.raised[*vector] + due(*vector));
        ensure(effect.loose || wrong.is_none(), || {
            format!(
                "host {host}: vectors raised {:?}, then {:?}: {notification:?}",
                before.raised, after.raised
            )
        })
    }

    /// Checks a packet for an honest slot against the ledger.
    fn check_message_of(
        &mut self,
        host: usize,
        source: u16,
        effect: &Effect,
        bytes: &[u8],
    ) -> Result<(), Violation> {
        let slot = self.around.hosts[host].machine.slot(effect.header.slot);
        if slot.is_some_and(|slot| slot.prey || slot.streams || slot.privileged.is_some()) {
            return Ok(());
        }
        let (delivery, whole) = self.ledger.arrived(host, source, bytes)?;
        if let Some(notification) = &effect.notification {
            let queues = &mut self.around.hosts[host].machine.tables().queues;
            queues[notification.queue as usize].iter_mut().for_each(|queue| queue.deliveries.push(delivery));
        }
        ensure(whole == effect.whole, || {
            format!("card and ledger differ (whole: {whole}): {}", self.ledger.describe(delivery))
        })?;
        if whole {
            check_message(self.around.hosts, self.ledger, delivery)?;
            if self.ledger.deliveries[delivery].silent {
                self.ledger.release(delivery);
            }
        }
        Ok(())
    }
}

/// Cuts a packet at random positions, like the pages that it is gathered from.
fn cut<'a>(rng: &mut Rng, mut bytes: VolatileSlice<'a>) -> Vec<VolatileSlice<'a>> {
    let mut pieces = Vec::new();
    while let Ok((piece, rest)) = bytes.split_at(rng.index(bytes.len() + 1)) {
        pieces.push(piece);
        bytes = rest;
        if pieces.len() == 3 || bytes.is_empty() {
            break;
        }
    }
    pieces.push(bytes);
    pieces
}

/// Checks that exactly one counter counts the packet: as received, refused for one reason, or
/// discarded.
fn check_fate(verdict: &Verdict, loose: bool, before: &Counts, after: &Counts) -> Result<(), Violation> {
    let is_fate = |statistic: &Statistic| {
        matches!(statistic, Statistic::PacketsReceived | Statistic::Discarded)
            || *statistic as u32 >= Statistic::RefusedPacket as u32
    };
    let grown = |fate: &Statistic| after.of_statistic(*fate) - before.of_statistic(*fate);
    let fates: Vec<Statistic> =
        Statistic::ALL.into_iter().filter(|fate| is_fate(fate) && grown(fate) != 0).collect();
    let (expected, open) = match verdict {
        // A fetch-and-op that gets this far also depends on the metadata.
        Verdict::Counted(reason @ (Statistic::RefusedFetch | Statistic::RefusedFetchAddress)) => {
            (*reason, loose)
        }
        Verdict::Counted(reason) => (*reason, false),
        // If the metadata changes meanwhile, it may be refused after all.
        _ => (Statistic::PacketsReceived, loose),
    };
    let once = fates.len() == 1 && grown(&fates[0]) == 1;
    ensure(once && (open || fates == [expected]), || {
        let names: Vec<&str> = fates.iter().map(|fate| fate.name()).collect();
        format!("a packet was counted as {names:?} (must be {} once): {verdict:?}", expected.name())
    })
}
