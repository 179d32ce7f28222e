//! The simulated operating system of a host: it sets up connections and watches over them (sections
//! 6.3 and 6.4).
//!
//! `hamlyn_driver_host` has its messages and its state: the driver's own code, guest-driver/kernel.
//! This module binds that code to a simulated card, and to the library.
//!
//! | file | driver's counterpart | holds |
//! |---|---|---|
//! | `files` | `connectfile.c` | the library's handles of connections and listeners |
//! | `wellknown` | `wellknown.c` | the driver's own terminus, queue and slots |

mod files;
mod wellknown;

pub(crate) use files::{ConnectionHandle, ListenerHandle};
pub(crate) use hamlyn_driver_host::System;
pub(crate) use wellknown::{SYSTEM, WellKnown};
