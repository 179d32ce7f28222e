//! The operating system of a host, played: it sets connections up and watches over them (sections
//! 6.3 and 6.4).
//!
//! What it says and remembers is `hamlyn_driver_host`: the driver's own code, guest-driver/kernel.
//! Here that is bound to a simulated card, and to the library.
//!
//! | file | like the driver's | holds |
//! |---|---|---|
//! | `files` | `connectfile.c` | what the library holds of connections and listeners |
//! | `wellknown` | `wellknown.c` | the driver's own terminus, queue and slots |

mod files;
mod wellknown;

pub(crate) use files::{ConnectionHandle, ListenerHandle};
pub(crate) use hamlyn_driver_host::System;
pub(crate) use wellknown::{SYSTEM, WellKnown};
