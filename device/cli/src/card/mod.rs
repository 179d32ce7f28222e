//! The card process: a card of the family, behind the vfio-user server and in front of the switch.
//!
//! * `args`: the flags
//! * `ports`: what the card reaches the world through, made of the bus and the fabric
//! * `function`: the card as the bus sees it, a PCI function
//! * `uplink`: the link to the switch, made anew when the switch comes back
//! * `process`: the event loop, and the policy of when to look and when to sleep

mod args;
mod function;
mod ports;
mod process;
mod uplink;

pub use self::args::CardArgs;
pub use self::process::run;
