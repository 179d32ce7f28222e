//! The card process: a card of the family, behind the vfio-user server and in front of the switch.
//!
//! * `args`: the flags
//! * `ports`: what the card reaches the world through, made of the bus and the fabric
//! * `function`: the card as the bus sees it, a PCI function
//! * `station`: the card with its machine's server
//! * `uplink`: the link to the switch, made anew when the switch comes back
//! * `signals`, `wait`: how a process ends, and how long its loop waits; the fabric's and the switch's, too
//! * `process`: the event loop, and the policy of when to look and when to sleep

mod args;
mod function;
mod ports;
mod process;
mod signals;
mod station;
mod uplink;
mod wait;

pub use self::args::{CardArgs, CardOptions};
pub(crate) use self::ports::SystemClock;
pub use self::process::run;
pub(crate) use self::signals::stop_on_signals;
pub(crate) use self::station::{Socket, Station, Turn};
pub(crate) use self::uplink::{Neighbours, Uplink};
pub(crate) use self::wait::sooner;
