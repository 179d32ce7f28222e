//! Tests with real machines: stock QEMU, Debian's kernel, our module, our library.
//!
//! Each test has a lab: switch, cards, machines; the shared one, or one of its own (`turn.rs`).

mod built;
mod c_api;
mod channel;
mod channels;
mod clan;
mod clan_c;

mod clan_ends;
mod clan_groups;
mod clan_programs;
mod clan_protection;
mod clan_tools;
mod clan_tripwires;
mod connections;
mod dart;
mod dart_c;
mod dart_ends;
mod dart_examples;
mod dart_faults;
mod dart_memory;
mod dart_programs;
mod dart_tools;
mod dart_windows;
mod deaths;
#[path = "../common/desk.rs"]
mod desk;
mod doorbells;
mod driver;
mod echo;
#[path = "../common/eventually.rs"]
mod eventually;
mod express;
mod express_ends;
mod express_isolated;
mod express_protection;
mod fetch;
mod flow;
mod groups;
mod handshake;
#[path = "../common/instructions.rs"]
#[allow(dead_code)]
mod instructions;
mod lies;
mod loopback;
mod mailbox;
mod many;
mod messages;
mod middleware;
mod neighbours;
mod notifications;
mod own_program;
mod plug;
mod power;
#[path = "../common/program.rs"]
mod program;
mod protocols;
mod quotas;
mod refusals;
mod resets;
mod server;
mod shrimp;
mod shrimp_hostile;
mod shrimp_machines;
mod shrimp_own;
mod shrimp_paging;
mod shrimp_primitives;
mod shrimp_tools;
mod snoop;
mod tool;
mod tools;
mod turn;
mod windows;

use hamlyn_lab::Lab;
use serde_json::{Value, json};

pub(crate) use eventually::eventually;
pub(crate) use turn::{Right, Turn, lab, lab_of, shared, shared_as, shared_of, turn};

/// How much of a long test is run: all of it for `./scripts/test --long`, else this part.
pub(crate) fn if_long(all: u32, part: u32) -> u32 {
    if std::env::var_os("HAMLYN_LONG").is_some() { all } else { part }
}

/// Waits until machine 0 finds a name at host 1 alone: a host that is slow to answer has it for
/// nobody.
pub(crate) fn finds(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let found =
        || Ok(lab.vm(0).run(["hamlyn-info", "--find", name, "--json"])?.finish()?[0]["hosts"] == json!([1]));
    eventually(found, name)
}

/// A field of an answer, as text.
pub(crate) fn text(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or_else(|| panic!("no text {field} in {answer}")).to_owned()
}
