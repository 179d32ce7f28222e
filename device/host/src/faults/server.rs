//! The socket for programs that set a card's rules.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process;

use hamlyn_door::{Kept, Kind, Listener, Porter, Porters};
use hamlyn_fabric::bell::look;
use hamlyn_fabric::message::send_with;
use hamlyn_faults::talk::{Answer, LONGEST, Request, VERSION};
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::reception::Reception;
use crate::rundir;
use crate::stat::{FAULTS, process_socket};
use crate::station::Station;

/// Length of the queue of programs.
const PROGRAMS: i32 = 4;

/// A process's fault socket. It never blocks: poll its descriptor for input, then call
/// [`FaultServer::serve`].
#[derive(Debug)]
pub(crate) struct FaultServer {
    reception: Reception,
    /// Closes programs' connections, together with the descriptors that they have sent.
    porter: Porter,
    /// The program whose request has not arrived yet. The next one takes its place.
    asking: Option<Kept<OwnedFd>>,
}

impl FaultServer {
    /// Listens in the run directory as a process of this kind (`card`, `fabric`).
    pub(crate) fn bind(kind: &str) -> anyhow::Result<Self> {
        Self::bind_in(&rundir::open()?, kind)
    }

    pub(super) fn bind_in(dir: &Path, kind: &str) -> anyhow::Result<Self> {
        let socket = process_socket(dir, kind, process::id(), FAULTS);
        let listener = Listener::bind(&socket, Kind::Messages, PROGRAMS)?;
        let porter = Porters::new(1).hire()?;
        Ok(Self { reception: Reception::new(listener)?, porter, asking: None })
    }

    /// Answers a program whose request has arrived. Returns whether rules have changed.
    pub(crate) fn serve<'a>(&mut self, mut stations: Vec<(&'a str, &'a mut Station)>) -> bool {
        if let Some(asking) = self.asking.take() {
            let mut request = vec![0; LONGEST];
            match look(&asking, &mut request) {
                Err(Errno::AGAIN | Errno::INTR) => self.asking = Some(asking),
                seen => {
                    self.reception.forget(asking.as_fd());
                    // Descriptors stay in the socket. Received, they would be closed here.
                    let Ok((length, false)) = seen else { return false };
                    // An answer is lost if its socket is closed with a message unread.
                    let _ = recv(&asking, &mut [0_u8; 1][..], RecvFlags::DONTWAIT);
                    let (answer, changes) = answer(&request[..length], &mut stations);
                    let text = serde_json::to_vec(&answer).unwrap_or_default();
                    if let Err(error) = send_with(&asking, &text, &[]) {
                        tracing::debug!("a program that sets faults went away: {error}");
                    }
                    return changes;
                }
            }
        }
        if let Some(program) = self.reception.accept() {
            let program = self.porter.keep(program);
            if let Some(earlier) = self.asking.take() {
                self.reception.forget(earlier.as_fd());
            }
            let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP;
            if self.reception.watch_for(program.as_fd(), flags).is_ok() {
                self.asking = Some(program);
            }
        }
        false
    }
}

/// Carries out a request. Returns the answer, and whether rules have changed.
fn answer(request: &[u8], stations: &mut [(&str, &mut Station)]) -> (Answer, bool) {
    let refuse = |why: String| (Answer { refusal: Some(why), cards: Vec::new() }, false);
    let request: Request = match serde_json::from_slice(request) {
        Ok(request) => request,
        Err(error) => return refuse(format!("the request cannot be read: {error}")),
    };
    if request.version != VERSION {
        return refuse(format!("requests of version {} (this process: {VERSION})", request.version));
    }
    let is_meant = |name: &str| request.card.as_deref().is_none_or(|card| card == name);
    let mut meant: Vec<_> = stations.iter_mut().filter(|(name, _)| is_meant(name)).collect();
    let cards = meant.iter_mut().map(|(name, station)| station.faults(name)).collect();
    if let Some(rules) = &request.rules {
        // All cards or none.
        let rules = meant.iter().map(|(_, station)| station.rules(rules)).collect::<Result<Vec<_>, _>>();
        let rules = match rules {
            Ok(rules) => rules,
            Err(error) => return refuse(error.to_string()),
        };
        for ((name, station), rules) in meant.iter_mut().zip(rules) {
            station.start_faults(rules, request.seed);
            tracing::warn!("{name}: {} rules for faults", station.faults(name).rules.len());
        }
    }
    (Answer { refusal: None, cards }, request.rules.is_some())
}

impl AsRawFd for FaultServer {
    fn as_raw_fd(&self) -> RawFd {
        self.reception.as_raw_fd()
    }
}
