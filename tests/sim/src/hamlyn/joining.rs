//! How programs turn a connection into a channel: each side asks for a view of the other's area,
//! and joins it.

use hamlyn::channel::{End, Options};
use hamlyn::{Connection, Error, PeerLoss};
use rustix::io::Errno;

use crate::engine::violation::Violation;
use crate::hamlyn::areas::{ask_for_view, view_is_decided};
use crate::hamlyn::around::Around;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::correspondent::{Asked, Joining, Talking};
use crate::hamlyn::endings::Watcher;
use crate::hamlyn::matrix::AreaName;
use crate::hamlyn::tally::Tally;

/// Bytes in a page of express memory.
const PAGE: u64 = 4096;

/// Returns the area that an offer is for (guest-lib/src/channel/offer.rs), on its host.
fn named_in(offer: &[u8], host: u32) -> Option<(AreaName, u64)> {
    let number = u32::from_le_bytes(offer.get(20..24)?.try_into().ok()?);
    let key = u64::from_le_bytes(offer.get(24..32)?.try_into().ok()?);
    Some((AreaName { host, number }, key))
}

fn errno(error: &Error) -> Option<Errno> {
    match error {
        Error::System { source, .. } => Errno::from_io_error(source),
        _ => None,
    }
}

/// Turns connections of programs into channels.
pub(super) struct Joiner<'a> {
    pub(super) around: Around<'a>,
    pub(super) connections: &'a mut Connections,
    pub(super) tally: &'a mut Tally,
}

impl Joiner<'_> {
    fn watcher(&mut self) -> Watcher<'_> {
        Watcher { around: self.around.lend(), connections: self.connections }
    }

    /// Creates a channel's end for another host, and its offer, if that is possible.
    pub(super) fn make_end(
        &mut self,
        host: usize,
        process: usize,
        target: u32,
    ) -> Result<Option<(End, Vec<u8>)>, Violation> {
        let ring = u64::from(self.around.rng.range(1, 3)) * PAGE;
        let options = Options::for_messages(ring / 2 - 16);
        let has_link = self.around.hosts[host].uplink.is_up();
        let Some(program) = self.around.hosts[host].correspondent(process) else { return Ok(None) };
        match End::create(&program.card, target, options) {
            // Without a link it cannot be rung.
            Ok(end) => Ok(end.offer().ok().map(|offer| (end, offer))),
            // `Unsupported`: the host is this host itself, or this one's memory is gone.
            Err(Error::Exhausted { .. } | Error::OutOfRange { .. } | Error::Unsupported(_)) => Ok(None),
            Err(error) => match errno(&error) {
                // There are few pages, or the host is being asked, is absent or lost.
                Some(Errno::NOSPC | Errno::DQUOT | Errno::AGAIN | Errno::HOSTDOWN | Errno::HOSTUNREACH) => {
                    Ok(None)
                }
                _ if !has_link => Ok(None),
                _ => Err(Violation::new(format!("host {host} cannot make an area for {target}: {error}"))),
            },
        }
    }

    /// Starts to join, with a connection, an end, and the other side's offer.
    pub(super) fn begin(
        &mut self,
        (host, process): (usize, usize),
        (record, side): (usize, usize),
        connection: Connection,
        end: End,
        offer: Vec<u8>,
    ) -> Result<(), Violation> {
        let machine = self.around.hosts[host].machine.clone();
        let pid = self.around.hosts[host].processes[process].pid;
        let Some((of, key)) = named_in(&offer, connection.host()) else {
            return Err(Violation::new(format!("connection {record}: an offer of {} bytes", offer.len())));
        };
        if ask_for_view(&machine, pid, of, key).is_err() {
            // The link is down.
            let now = self.around.now;
            self.connections.gone(record, side, now, None);
            return Ok(());
        }
        let view = Asked { machine, pid, of, key };
        let joining = Joining { record, side, connection, end, offer, view };
        if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
            program.joining.push(joining);
        }
        Ok(())
    }

    /// Checks whether the views of a program have come.
    pub(super) fn look_at_views(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        let is_decided = |joining: &Joining| {
            let Asked { machine, pid, of, key } = &joining.view;
            view_is_decided(machine, *pid, *of, *key) || !matches!(joining.connection.end(), Ok(None))
        };
        let Some(index) = program.joining.iter().position(is_decided) else { return Ok(false) };
        let Joining { record, side, connection, end, offer, view } = program.joining.swap_remove(index);
        if let Some(ended) = connection.end().map_err(Violation::new)? {
            self.watcher().is_told(record, side, &ended)?;
            return Ok(true);
        }
        let now = self.around.now;
        let of = view.of;
        match end.join(&offer, connection) {
            Ok(channel) => {
                self.tally.channels += 1;
                let talking = Talking::new(record, side, of, channel);
                if let Some(program) = self.around.hosts[host].correspondent_mut(process) {
                    program.talking.push(talking);
                }
                self.around.note(|| format!("connection {record}: side {side} has a channel"));
            }
            Err(error) => {
                self.connections.gone(record, side, now, None);
                let known = matches!(error, Error::PeerLost(PeerLoss::Gone))
                    || matches!(
                        errno(&error),
                        Some(Errno::ACCESS | Errno::BUSY | Errno::HOSTDOWN | Errno::NODEV)
                    );
                let is_so =
                    known && (self.watcher().is_parted(record, side) || self.has_lapse_of(record, side));
                if !is_so {
                    return Err(Violation::new(format!(
                        "connection {record}: side {side} gets no view: {error}"
                    )));
                }
            }
        }
        drop(view);
        Ok(true)
    }

    /// Returns whether one of its hosts has no link now.
    fn has_lapse_of(&self, record: usize, side: usize) -> bool {
        let hosts = self.connections.records[record].hosts;
        [hosts[side], hosts[1 - side]].iter().any(|host| !self.around.hosts[*host].uplink.is_up())
    }
}
