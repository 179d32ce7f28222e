//! Packets that have arrived. A peer may be faulty or hostile: what it says about lengths, places
//! and numbers is checked, and only its own operations can suffer. The error is the `errno` with
//! which the peer is lost.

use super::event::{Event, Side, failed, finished};
use super::matching::{Body, Envelope, Posted, Unexpected};
use super::outgoing::{Outgoing, Source};
use super::transport::{Link, Packet};
use super::wire::{HEADER, Header, Kind, flag};
use super::{CREDIT_STEP, EAGER_CREDIT, Engine, Filling, MOST_HELD, Pending};
use crate::abi::{
    FI_ETRUNC, FI_MSG, FI_MULTI_RECV, FI_RECV, FI_REMOTE_CQ_DATA, FI_REMOTE_READ, FI_REMOTE_WRITE, FI_RMA,
    FI_TAGGED,
};
use crate::address::{ADDRESS, Address};
use crate::memory::Area;

impl<L: Link> Engine<L> {
    pub(super) fn handle(
        &mut self,
        packet: &dyn Packet,
        (link, host): (usize, u32),
        peer: &mut Option<usize>,
    ) -> Result<(), i32> {
        let mut header = [0; HEADER];
        let length = packet.len().checked_sub(HEADER).ok_or(libc::EPROTO)?;
        packet.read(0, &mut header)?;
        let header = Header::from_bytes(&header).ok_or(libc::EPROTO)?;
        let Some(from) = *peer else {
            *peer = Some(self.greet(packet, header.kind, length, (link, host))?);
            return Ok(());
        };
        match header.kind {
            Kind::Hello => Err(libc::EPROTO),
            Kind::Eager => self.take_eager(packet, from, &header, length),
            Kind::Long => self.take_long(from, &header),
            Kind::Pull => self.take_pull(from, &header),
            Kind::Piece => self.take_piece(packet, from, &header, length),
            Kind::Write => self.take_write(packet, from, &header, length),
            Kind::Read => self.take_read(from, &header),
            Kind::Atomic => self.take_atomic(packet, from, &header, length),
            Kind::Ack => self.take_ack(from, &header),
            Kind::Credit => {
                let eager = &mut self.peers[from].eager;
                *eager = eager.checked_sub(header.length).ok_or(libc::EPROTO)?;
                Ok(())
            }
        }
    }

    /// The peer that a stranger says it is. The channel knows its host.
    fn greet(
        &mut self,
        packet: &dyn Packet,
        kind: Kind,
        length: usize,
        (link, host): (usize, u32),
    ) -> Result<usize, i32> {
        if kind != Kind::Hello || length != ADDRESS {
            return Err(libc::EPROTO);
        }
        let mut address = [0; ADDRESS];
        packet.read(HEADER, &mut address)?;
        let address = Address(address);
        address.name().filter(|_| address.host() == host).ok_or(libc::EPROTO)?;
        let peer = self.peer(address);
        let known = &mut self.peers[peer];
        if known.out.is_none() && !known.is_connecting {
            known.out = Some(link);
        }
        Ok(peer)
    }

    fn take_eager(
        &mut self,
        packet: &dyn Packet,
        peer: usize,
        header: &Header,
        length: usize,
    ) -> Result<(), i32> {
        let ack = header.has(flag::ACK).then_some(header.id);
        let envelope = envelope(peer, header, length, ack);
        self.peers[peer].held += length as u64;
        if let Some(posted) = self.find_posted(&envelope) {
            let filled = length.min(posted.area.len());
            posted.area.cut(0, filled).each_write(|at, part| packet.read(HEADER + at, part))?;
            self.finish_whole(&posted, &envelope, filled);
            return Ok(());
        }
        let mut bytes = vec![0; length];
        packet.read(HEADER, &mut bytes)?;
        if self.peers[peer].held > EAGER_CREDIT + CREDIT_STEP {
            return Err(libc::EPROTO);
        }
        self.hold(Unexpected { envelope, body: Body::Whole(bytes) })
    }

    fn take_long(&mut self, peer: usize, header: &Header) -> Result<(), i32> {
        let length = usize::try_from(header.length).map_err(|_| libc::EPROTO)?;
        let envelope = envelope(peer, header, length, None);
        match self.find_posted(&envelope) {
            Some(posted) => {
                self.pull(posted, envelope, header.id);
                Ok(())
            }
            None => self.hold(Unexpected { envelope, body: Body::AtSender(header.id) }),
        }
    }

    fn hold(&mut self, unexpected: Unexpected) -> Result<(), i32> {
        let count = &mut self.peers[unexpected.envelope.peer].unexpected;
        if *count == MOST_HELD {
            return Err(libc::EPROTO);
        }
        *count += 1;
        self.queue(unexpected.envelope.tagged).hold(unexpected);
        Ok(())
    }

    /// The receive that a message goes to. Of a buffer for several messages, the part for this one.
    pub(super) fn find_posted(&mut self, envelope: &Envelope) -> Option<Posted> {
        let (multis, least) = (&mut self.multis, self.least_room);
        let queue = if envelope.tagged { &mut self.tagged } else { &mut self.plain };
        let mut full = None;
        let found = queue.find_posted(envelope, |posted| {
            let number = posted.multi?;
            let part = Posted { area: posted.area.cut(0, envelope.length), ..posted.clone() };
            posted.area = posted.area.cut(part.area.len(), usize::MAX);
            if let Some(multi) = multis.get_mut(&number) {
                multi.pending += 1;
                multi.is_full = posted.area.len() < least.max(1);
                full = multi.is_full.then_some(number);
            }
            Some(part)
        });
        if let Some(number) = full {
            queue.retire(number);
        }
        found
    }

    /// Gives a message that was held to a receive.
    pub(super) fn deliver(&mut self, posted: Posted, held: Unexpected) {
        let envelope = held.envelope;
        let count = &mut self.peers[envelope.peer].unexpected;
        *count = count.saturating_sub(1);
        match held.body {
            Body::AtSender(id) => self.pull(posted, envelope, id),
            Body::Whole(bytes) => {
                let filled = posted.area.fill(0, &bytes);
                self.finish_whole(&posted, &envelope, filled);
            }
        }
    }

    /// Drops a message that was held.
    pub(super) fn discard(&mut self, held: Unexpected) {
        let envelope = held.envelope;
        let count = &mut self.peers[envelope.peer].unexpected;
        *count = count.saturating_sub(1);
        match held.body {
            Body::AtSender(id) => self.ask_for(envelope.peer, id, 0, 0),
            Body::Whole(_) => self.taken(&envelope),
        }
    }

    /// Ends the receive of an eager message.
    fn finish_whole(&mut self, posted: &Posted, envelope: &Envelope, filled: usize) {
        let error = if filled < envelope.length { FI_ETRUNC } else { 0 };
        self.finish_receive(posted, envelope, filled, error);
        self.taken(envelope);
    }

    /// Confirms an eager message, and returns its credit.
    fn taken(&mut self, envelope: &Envelope) {
        let from = &mut self.peers[envelope.peer];
        // A peer that was lost meanwhile has a new account.
        let length = from.held.min(envelope.length as u64);
        from.held -= length;
        from.taken += length;
        if from.taken >= CREDIT_STEP {
            let header = Header { length: std::mem::take(&mut from.taken), ..Header::new(Kind::Credit) };
            self.post(envelope.peer, Outgoing::packet(header, Source::default(), None));
        }
        if let Some(id) = envelope.ack {
            self.confirm(envelope.peer, id, 0);
        }
    }

    /// Asks for the bytes of a message, as many as the receive has room for.
    fn pull(&mut self, posted: Posted, envelope: Envelope, id: u64) {
        let length = envelope.length.min(posted.area.len());
        let number = self.number();
        if length == 0 {
            let error = if envelope.length > 0 { FI_ETRUNC } else { 0 };
            self.finish_receive(&posted, &envelope, 0, error);
        } else {
            let filling = Filling { area: posted.area.clone(), got: 0, length };
            self.pending.insert(number, (envelope.peer, Pending::Receive(filling, posted, envelope)));
        }
        self.ask_for(envelope.peer, id, number, length);
    }

    fn ask_for(&mut self, peer: usize, id: u64, place: u64, length: usize) {
        let header = Header { id, place, length: length as u64, ..Header::new(Kind::Pull) };
        self.post(peer, Outgoing::packet(header, Source::default(), None));
    }

    pub(super) fn finish_receive(&mut self, posted: &Posted, envelope: &Envelope, got: usize, error: i32) {
        let mut flags = FI_RECV | if envelope.tagged { FI_TAGGED } else { FI_MSG };
        flags |= if envelope.data.is_some() { FI_REMOTE_CQ_DATA } else { 0 };
        if let Some(number) = posted.multi {
            if let Some(multi) = self.multis.get_mut(&number) {
                multi.pending -= 1;
                if multi.is_full && multi.pending == 0 {
                    self.multis.remove(&number);
                    flags |= FI_MULTI_RECV;
                }
            }
        }
        self.events.push(Event {
            context: posted.context,
            flags,
            length: got,
            buffer: posted.area.start(),
            data: envelope.data.unwrap_or(0),
            tag: envelope.tag,
            peer: Some(envelope.peer),
            missing: envelope.length - got,
            report: posted.report || error != 0 || flags & FI_MULTI_RECV != 0,
            ..failed(Side::Receive, error)
        });
    }

    fn take_pull(&mut self, peer: usize, header: &Header) -> Result<(), i32> {
        let Some((owner, Pending::Send { source, operation, delivery, is_pulled })) =
            self.pending.get_mut(&header.id)
        else {
            return Err(libc::EPROTO);
        };
        if *owner != peer || std::mem::replace(is_pulled, true) {
            return Err(libc::EPROTO);
        }
        let (source, operation, delivery) = (std::mem::take(source), *operation, *delivery);
        let most = match &source {
            Source::Bytes(bytes) => bytes.len(),
            Source::Area(area) => area.len(),
            Source::Region { .. } => 0,
        };
        let length = usize::try_from(header.length).ok().filter(|length| *length <= most);
        let length = length.ok_or(libc::EPROTO)?;
        // With nothing to send, the request confirms as well.
        if !delivery || length == 0 {
            self.pending.remove(&header.id);
        }
        if length == 0 {
            self.events.push(finished(operation, most, 0));
            return Ok(());
        }
        let pieces = Header { id: header.place, ..Header::new(Kind::Piece) };
        let pieces = Header { data: if delivery { header.id } else { 0 }, ..pieces };
        let then = (!delivery).then_some(operation);
        self.post(peer, Outgoing::pieces(pieces, source, length, then));
        Ok(())
    }

    fn take_piece(
        &mut self,
        packet: &dyn Packet,
        peer: usize,
        header: &Header,
        length: usize,
    ) -> Result<(), i32> {
        // Pieces for an operation that has failed are of no use.
        let Some((owner, pending)) = self.pending.get_mut(&header.id) else { return Ok(()) };
        let (Pending::Receive(filling, ..) | Pending::Read(filling, _)) = pending else {
            return Err(libc::EPROTO);
        };
        let rest = filling.length - filling.got;
        if *owner != peer || header.place != filling.got as u64 || length == 0 || length > rest {
            return Err(libc::EPROTO);
        }
        let room = filling.area.cut(filling.got, length);
        room.each_write(|at, part| packet.read(HEADER + at, part))?;
        filling.got += length;
        if filling.got < filling.length {
            return Ok(());
        }
        match self.pending.remove(&header.id) {
            Some((_, Pending::Read(filling, operation))) => {
                self.events.push(finished(operation, filling.length, 0));
            }
            Some((_, Pending::Receive(filling, posted, envelope))) => {
                let error = if filling.length < envelope.length { FI_ETRUNC } else { 0 };
                self.finish_receive(&posted, &envelope, filling.length, error);
                if header.data != 0 {
                    self.confirm(peer, header.data, 0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn take_write(
        &mut self,
        packet: &dyn Packet,
        peer: usize,
        header: &Header,
        length: usize,
    ) -> Result<(), i32> {
        let refused = {
            // Held while bytes are stored: the program may close the region in another thread.
            let regions = self.regions.lock().map_err(|_| libc::EIO)?;
            match regions.find(header.tag, header.place, length as u64, true) {
                Ok(area) => area.each_write(|at, part| packet.read(HEADER + at, part)).map(|()| None)?,
                Err(error) => Some(error),
            }
        };
        if let Some(error) = refused {
            self.confirm(peer, header.id, error);
            return Ok(());
        }
        if !header.has(flag::LAST) {
            return Ok(());
        }
        self.confirm(peer, header.id, 0);
        self.was_accessed(peer, FI_RMA | FI_REMOTE_WRITE, header.has(flag::DATA).then_some(header.data));
        Ok(())
    }

    /// A peer has changed or read a region: counters count it, and data is reported.
    pub(super) fn was_accessed(&mut self, peer: usize, how: u64, data: Option<u64>) {
        let flags = how | if data.is_some() { FI_REMOTE_CQ_DATA } else { 0 };
        let (data, report) = (data.unwrap_or(0), data.is_some());
        self.events.push(Event { flags, data, peer: Some(peer), report, ..failed(Side::Receive, 0) });
    }

    fn take_read(&mut self, peer: usize, header: &Header) -> Result<(), i32> {
        let found = {
            let regions = self.regions.lock().map_err(|_| libc::EIO)?;
            regions.find(header.tag, header.place, header.length, false)
        };
        match found.as_ref().map(Area::len) {
            Err(error) => self.confirm(peer, header.id, *error),
            Ok(0) => {
                self.confirm(peer, header.id, 0);
                self.was_accessed(peer, FI_RMA | FI_REMOTE_READ, None);
            }
            Ok(length) => {
                let source = Source::Region { key: header.tag, place: header.place };
                let pieces = Header { id: header.id, ..Header::new(Kind::Piece) };
                self.post(peer, Outgoing::pieces(pieces, source, length, None));
            }
        }
        Ok(())
    }

    fn take_ack(&mut self, peer: usize, header: &Header) -> Result<(), i32> {
        // Each packet of a write that is refused is answered.
        let Some((owner, pending)) = self.pending.get(&header.id) else { return Ok(()) };
        let operation = match pending {
            _ if *owner != peer => return Err(libc::EPROTO),
            Pending::Read(filling, _) if header.error == 0 && filling.length > 0 => return Err(libc::EPROTO),
            Pending::Receive(..) => return Err(libc::EPROTO),
            Pending::Send { operation, .. } | Pending::Write(operation) | Pending::Read(_, operation) => {
                *operation
            }
        };
        self.pending.remove(&header.id);
        self.events.push(finished(operation, 0, header.error.max(0)));
        Ok(())
    }
}

fn envelope(peer: usize, header: &Header, length: usize, ack: Option<u64>) -> Envelope {
    Envelope {
        peer,
        tagged: header.has(flag::TAGGED),
        tag: header.tag,
        data: header.has(flag::DATA).then_some(header.data),
        length,
        ack,
    }
}
