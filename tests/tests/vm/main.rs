//! Tests with real machines: stock QEMU, Debian's kernel, our module, our library.
//!
//! Each test has a lab of its own: switch, cards, machines. They take turns, because a machine without hardware
//! virtualisation wants a core.

mod c_api;
mod connections;
mod deaths;
#[path = "../common/desk.rs"]
mod desk;
mod doorbells;
mod driver;
mod fetch;
mod flow;
mod groups;
mod handshake;
mod loopback;
mod mailbox;
mod many;
mod messages;
mod middleware;
mod neighbours;
mod notifications;
mod own_program;
mod power;
#[path = "../common/program.rs"]
mod program;
mod protocols;
mod quotas;
mod refusals;
mod resets;
mod server;
mod tools;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use hamlyn_cli::lab::{Builder, Lab};
use serde_json::Value;

static TURN: Mutex<()> = Mutex::new(());

/// A lab of `vms` machines, and this test's turn. The lab goes first.
pub(crate) struct Turn {
    lab: Lab,
    _turn: MutexGuard<'static, ()>,
}

impl std::ops::Deref for Turn {
    type Target = Lab;

    fn deref(&self) -> &Lab {
        &self.lab
    }
}

pub(crate) fn lab(vms: usize) -> Turn {
    lab_of(Lab::builder().vms(vms))
}

/// How much of a long test is run: all of it for `./scripts/test --long`, else this part.
pub(crate) fn share(all: u32, part: u32) -> u32 {
    if std::env::var_os("HAMLYN_LONG").is_some() { all } else { part }
}

/// The right to have machines, until this is dropped.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn lab_of(builder: Builder) -> Turn {
    let turn = turn();
    let lab = builder.start().unwrap_or_else(|error| panic!("no lab: {error:#}"));
    Turn { lab, _turn: turn }
}

/// A field of an answer, as text.
pub(crate) fn text(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or_else(|| panic!("no text {field} in {answer}")).to_owned()
}

/// Waits until something that is on its way has come.
pub(crate) fn eventually(mut come: impl FnMut() -> Result<bool>, what: &str) -> Result<()> {
    for _ in 0..1200 {
        if come()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    bail!("still not after a minute: {what}")
}
