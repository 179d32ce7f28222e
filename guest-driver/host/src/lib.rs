//! The driver's connections (sections 6.3 and 6.4 of the paper) without a kernel:
//! `guest-driver/kernel`, the very C that ships, for programs.
//!
//! Each [`System`] is an operating system as others see it through one card. It has no card, clock
//! or thread: whoever calls it hands it its [`Ports`], and has its work done ([`System::work`]). So
//! it can be tested by itself, and any number of them run in one process, each the same from run to
//! run. Two bind it to cards: the seeded simulation, and the library for programs that attach to a
//! card's socket, with no operating system between.
//!
//! | file | holds |
//! |---|---|
//! | `../shim` | the kernel's services that the C asks for, and what is asked of the C |
//! | `foreign` | the border to it, with all `unsafe` code of this crate |
//! | `express` | areas and views of express memory by number, as a process has them: the counterpart of `core/expressfile.c` |
//! | `files` | listeners and connections by number, as a process has them by file: the counterpart of `connectfile.c` |
//! | `slots` | the layout of Hamlyn's well-known slots, and what is posted to them, as in `hamlyn/wellknown.c` |

pub mod express;
mod files;
mod foreign;
pub mod slots;
#[cfg(test)]
mod tests;

use hamlyn_abi::kernel::wire::HamlynWire;
use hamlyn_abi::uapi::HAMLYN_END_LINK_LOST;
use rustix::io::Result;

use foreign::Host;

/// What a system reaches while it is called: time, memory, and its card. None of these may panic,
/// as C calls them.
pub trait Ports {
    /// The time, in milliseconds.
    fn now(&self) -> u64;

    /// Whether there is memory for one more thing.
    fn allocates(&mut self) -> bool {
        true
    }

    /// Posts a message, `data` being name and private data, for an entry of our slot at another
    /// host. False: there is no room now.
    fn post(&mut self, host: u32, entry: u32, wire: &HamlynWire, data: &[u8]) -> bool;

    /// Takes the next message that has arrived: which host below 64 it is from, and in which entry
    /// it is.
    fn take(&mut self) -> Option<(u32, u32)>;

    /// Whether there is one. If not, [`System::arrived`] is to be called as soon as there is.
    fn more(&mut self) -> bool;

    /// Reads a message: its head, and into `place` the 512 bytes of its entry's place, if that has
    /// one.
    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> HamlynWire;

    /// An entry has been read, and may take a message again.
    fn reopen(&mut self, host: u32, entry: u32);

    /// A message of the card's own has come ([`System::say`]).
    fn message(&mut self, host: u32, wire: &HamlynWire, data: &[u8]) {
        let _ = (host, wire, data);
    }

    /// Nothing is arranged with a host any more: it is lost, or has begun anew.
    fn lost(&mut self, host: u32) {
        let _ = host;
    }

    /// An area or a view, by its number, has ended without its process' doing: that sees its pages
    /// no more when this returns.
    fn withdraw(&mut self, number: u32) {
        let _ = number;
    }

    /// Whether something is arranged with a host, besides connections: then it is looked whether
    /// that lives.
    fn depends(&mut self, host: u32) -> bool {
        let _ = host;
        false
    }
}

/// What is left in a system's tables. All is 0 at rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sizes {
    /// Connections that have not ended.
    pub connections: u32,
    /// Names that are listened to.
    pub listeners: u32,
    /// Messages that wait for acknowledgement.
    pub messages: u32,
    /// Pieces of memory, besides the system's own.
    pub pieces: u32,
    /// Connections and listeners that count as somebody's.
    pub held: u32,
    /// References to whom they count for.
    pub users: u32,
    /// Pages of express memory that areas have.
    pub used: u32,
    /// Those that areas had, until the other host confirms. Such as wait for it to be asked to
    /// settle may do so for ever, and are none.
    pub leaving: u32,
    /// The other hosts' that views have.
    pub viewed: u32,
    /// Those that count as somebody's.
    pub counted: u32,
}

/// The part of an operating system that has to do with connections.
#[derive(Debug)]
pub struct System {
    host: Host,
    /// How often the link had changed when it was last looked at.
    link_changes: u32,
}

impl System {
    /// Of a card that has not been started. `origin` is a random number, from which all others
    /// follow: it is in each message, so keys of areas are secrets in the simulation alone, and
    /// programs at sockets make none; `timeout` the milliseconds without a sign of life after which
    /// a host is given up, 1,000 to 600,000.
    #[must_use]
    pub fn new(origin: u32, timeout: u32) -> Self {
        Self { host: Host::new(origin, timeout), link_changes: 0 }
    }

    /// The card has been started: others can be reached, and remember nothing of us.
    pub fn open(&mut self, ports: &mut dyn Ports) {
        self.host.open(ports);
    }

    /// The card has stopped: so have connections and listeners.
    pub fn stop(&mut self, ports: &mut dyn Ports) {
        self.host.stop(ports);
    }

    /// This host may have missed messages: ends all connections for this reason, an `HAMLYN_END_*`.
    pub fn lost(&mut self, ports: &mut dyn Ports, reason: u32) {
        self.host.lost(ports, reason);
    }

    /// This host's id as long as the card has a link, and how often that has changed: one that is
    /// up, and was up, may have been down.
    pub fn link_is(&mut self, ports: &mut dyn Ports, id: Option<u32>, changes: u32) {
        // One that was down and has come up once has lost nothing; anything else may have.
        let came = id.is_some() && self.host.link.is_none() && changes == self.link_changes.wrapping_add(1);
        let lost = changes != self.link_changes && !came;
        (self.host.link, self.link_changes) = (id, changes);
        if lost {
            self.lost(ports, HAMLYN_END_LINK_LOST);
        }
    }

    /// How many hosts the switch has ports for: others are refused at once. 0: not known.
    pub fn set_hosts(&mut self, ports: &mut dyn Ports, hosts: u32) {
        self.host.set_hosts(ports, hosts);
    }

    /// Says something of the card's own to a host, by the words `from`, `to` and `reason`, and at
    /// most 256 bytes: see `hamlyn_system_say` in `guest-driver/kernel/hamlyn_system.h`, errors
    /// included.
    pub fn say(&mut self, ports: &mut dyn Ports, host: u32, wire: &HamlynWire, data: &[u8]) -> Result<()> {
        self.host.say(ports, host, wire, data)
    }

    /// Something is about to be arranged with a host: [`Ports::depends`] will say so.
    pub fn watch(&mut self, ports: &mut dyn Ports, host: u32) {
        self.host.watch(ports, host);
    }

    /// Messages have arrived: there is work.
    pub fn arrived(&mut self, ports: &mut dyn Ports) {
        self.host.arrived(ports);
    }

    /// The handshake timer ran out, and the card discarded what came meanwhile: there is work.
    pub fn lapsed(&mut self, ports: &mut dyn Ports) {
        self.host.lapsed(ports);
    }

    /// Does one piece of work that is due: takes what has arrived, up to 256 messages, or looks
    /// after other hosts. False: none was.
    pub fn work(&mut self, ports: &mut dyn Ports) -> bool {
        self.host.work(ports)
    }

    /// When there is work next, in milliseconds, if there is any.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.host.due()
    }

    /// When this side last forgot what it had with a host, in milliseconds.
    #[must_use]
    pub fn renewed(&self, host: u32) -> u64 {
        self.host.renewed(host)
    }

    /// What is left in its tables.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.host.sizes()
    }

    /// What the C has done, first, that no kernel allows: a lock that was not held, memory that was
    /// given back twice.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        self.host.complaint()
    }

    /// The listeners and connections, by number, that have had news since the last call: who sleeps
    /// on one is to look.
    pub fn take_woken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.host.woken)
    }
}
