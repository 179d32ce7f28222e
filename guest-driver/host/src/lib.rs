//! The driver's connections (sections 6.3 and 6.4 of the paper) without a kernel: the shipped C
//! code of `guest-driver/kernel`, compiled for programs.
//!
//! Each [`System`] is an operating system as other hosts see it through one card. It has no card,
//! clock or thread. Its caller passes it the [`Ports`], and runs its work ([`System::work`]). So it
//! can be tested in isolation, and any number of systems run in one process, each
//! deterministically. Two users bind it to cards: the seeded simulation, and the library for
//! programs that attach to a card's socket without an operating system in between.
//!
//! | file | holds |
//! |---|---|
//! | `../shim` | the kernel services that the C code needs, and the calls on it |
//! | `foreign` | the interface to C, with all `unsafe` code of this crate |
//! | `express` | express memory areas and views by number, like `core/expressfile.c` |
//! | `files` | listeners and connections by number, like `connectfile.c` |
//! | `slots` | Hamlyn's well-known slots, and requests to them, as in `hamlyn/wellknown.c` |

pub mod express;
mod files;
mod foreign;
pub mod slots;
#[cfg(test)]
mod tests;

use hamlyn_abi::kernel::wire::UlnWire;
use hamlyn_abi::uapi::ULN_END_LINK_LOST;
use rustix::io::Result;

use foreign::Host;

/// What a system can access during a call: time, memory, and its card. None of these functions may
/// panic, because C calls them.
pub trait Ports {
    /// Returns the time, in milliseconds.
    fn now(&self) -> u64;

    /// Returns whether there is memory for one more allocation.
    fn allocates(&mut self) -> bool {
        true
    }

    /// Posts a message to an entry of our slot on another host; `data` is the name and the private
    /// data. Returns false if there is no space now.
    fn post(&mut self, host: u32, entry: u32, wire: &UlnWire, data: &[u8]) -> bool;

    /// Takes the next message that has arrived: returns its source host, below 64, and its entry.
    fn take(&mut self) -> Option<(u32, u32)>;

    /// Returns whether a message has arrived. If not, call [`System::arrived`] as soon as one has.
    fn more(&mut self) -> bool;

    /// Reads a message: returns its head, and copies the 512 bytes of the entry's place, if it has
    /// one, to `place`.
    fn read(&mut self, host: u32, entry: u32, place: &mut [u8]) -> UlnWire;

    /// Reopens an entry for messages, after it has been read.
    fn reopen(&mut self, host: u32, entry: u32);

    /// Handles a message of the card's own kind ([`System::say`]).
    fn message(&mut self, host: u32, wire: &UlnWire, data: &[u8]) {
        let _ = (host, wire, data);
    }

    /// Drops everything arranged with a host: it is lost, or has restarted.
    fn lost(&mut self, host: u32) {
        let _ = host;
    }

    /// Handles the end of an area or a view that its process did not close. When this returns, the
    /// process must no longer see its pages.
    fn withdraw(&mut self, number: u32) {
        let _ = number;
    }

    /// Returns whether something besides connections is arranged with a host. If so, the system
    /// monitors whether the host is alive.
    fn depends(&mut self, host: u32) -> bool {
        let _ = host;
        false
    }
}

/// Number of entries in a system's tables. All are 0 at rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sizes {
    /// Connections that have not ended.
    pub connections: u32,
    /// Names that are listened under.
    pub listeners: u32,
    /// Messages that are not acknowledged.
    pub messages: u32,
    /// Memory allocations, except the system's own.
    pub pieces: u32,
    /// Connections and listeners that are charged to a user.
    pub held: u32,
    /// References to users.
    pub users: u32,
    /// Pages of express memory that areas have.
    pub used: u32,
    /// Pages of former areas, until the other host confirms that they are unused. Pages that wait
    /// for that host to be asked to settle are not counted, because they may wait forever.
    pub leaving: u32,
    /// Pages of other hosts that views have.
    pub viewed: u32,
    /// Pages that are charged to a user.
    pub counted: u32,
}

/// The part of an operating system that handles connections.
#[derive(Debug)]
pub struct System {
    host: Host,
    /// Number of link changes when the link was last checked.
    link_changes: u32,
}

impl System {
    /// Creates a system for a card that has not been started.
    ///
    /// `origin` is a random number, from which all other random numbers are derived. It is in each
    /// message. So keys of areas are secrets only in the simulation; programs at sockets make no
    /// areas. `timeout` is the time without a sign of life after which a host is given up, in
    /// milliseconds, 1,000 to 600,000.
    #[must_use]
    pub fn new(origin: u32, timeout: u32) -> Self {
        Self { host: Host::new(origin, timeout), link_changes: 0 }
    }

    /// Starts the system, because the card has been started. Other hosts can be reached, and have
    /// no state of us.
    pub fn open(&mut self, ports: &mut dyn Ports) {
        self.host.open(ports);
    }

    /// Stops all connections and listeners, because the card has stopped.
    pub fn stop(&mut self, ports: &mut dyn Ports) {
        self.host.stop(ports);
    }

    /// Ends all connections for this reason, an `ULN_END_*`, because this host may have missed
    /// messages.
    pub fn lost(&mut self, ports: &mut dyn Ports, reason: u32) {
        self.host.lost(ports, reason);
    }

    /// Sets this host's id while the card has a link, and the number of link changes. A link that
    /// was up before and is up now may have been down in between.
    pub fn link_is(&mut self, ports: &mut dyn Ports, id: Option<u32>, changes: u32) {
        // A link that was down and came up once has lost nothing; any other change may have.
        let came = id.is_some() && self.host.link.is_none() && changes == self.link_changes.wrapping_add(1);
        let lost = changes != self.link_changes && !came;
        (self.host.link, self.link_changes) = (id, changes);
        if lost {
            self.lost(ports, ULN_END_LINK_LOST);
        }
    }

    /// Sets the number of the switch's ports; requests to other hosts are refused at once. 0: not
    /// known.
    pub fn set_hosts(&mut self, ports: &mut dyn Ports, hosts: u32) {
        self.host.set_hosts(ports, hosts);
    }

    /// Sends a message of the card's own kind to a host: the words `from`, `to` and `reason`, and
    /// at most 256 bytes. For details and errors see `uln_system_say` in
    /// `guest-driver/kernel/uln_system.h`.
    pub fn say(&mut self, ports: &mut dyn Ports, host: u32, wire: &UlnWire, data: &[u8]) -> Result<()> {
        self.host.say(ports, host, wire, data)
    }

    /// Starts monitoring a host, because something is about to be arranged with it.
    /// [`Ports::depends`] must then return true for it.
    pub fn watch(&mut self, ports: &mut dyn Ports, host: u32) {
        self.host.watch(ports, host);
    }

    /// Queues work for messages that have arrived.
    pub fn arrived(&mut self, ports: &mut dyn Ports) {
        self.host.arrived(ports);
    }

    /// Queues work after the handshake timer expired, and the card discarded what arrived
    /// meanwhile.
    pub fn lapsed(&mut self, ports: &mut dyn Ports) {
        self.host.lapsed(ports);
    }

    /// Runs one piece of work that is due: takes up to 256 arrived messages, or checks other hosts.
    /// Returns false if no work was due.
    pub fn work(&mut self, ports: &mut dyn Ports) -> bool {
        self.host.work(ports)
    }

    /// Returns when the next work is due, in milliseconds, if there is any.
    #[must_use]
    pub fn due(&self) -> Option<u64> {
        self.host.due()
    }

    /// Returns when this side last forgot its state for a host, in milliseconds.
    #[must_use]
    pub fn renewed(&self, host: u32) -> u64 {
        self.host.renewed(host)
    }

    /// Returns the sizes of its tables.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.host.sizes()
    }

    /// Returns the first operation of the C code that a kernel does not allow. Examples: a lock
    /// that was not held, memory that was freed twice.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        self.host.complaint()
    }

    /// Returns the numbers of listeners and connections that have news since the last call. Waiters
    /// on them must look.
    pub fn take_woken(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.host.woken)
    }
}
