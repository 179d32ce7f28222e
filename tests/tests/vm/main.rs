//! Tests with real machines: stock QEMU, Debian's kernel, this project's module and library.
//!
//! Each test has a lab with a switch, cards and machines. The lab is shared, or belongs to one test
//! (`turn.rs`).

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
mod doorbells;
mod driver;
mod driver_test;
mod dump;
mod echo;
mod express;
mod express_ends;
mod express_isolated;
mod express_protection;
mod faults;
mod fetch;
mod flow;
mod gdb;
mod groups;
mod handshake;
mod lab_files;
mod left;
mod lies;
mod loopback;
mod mailbox;
mod many;
mod messages;
mod middleware;
mod module_over_nfs;
mod mpi;
mod neighbours;
mod network;
mod notifications;
mod own_program;
mod plug;
mod power;
mod protocols;
mod python;
mod quotas;
mod refusals;
mod replay;
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
mod sockets;
mod tool;
mod tools;
mod trace;
mod turn;
mod unmodified;
mod windows;

use hamlyn_lab::Lab;
use hamlyn_tests::{desk, instructions, program};
use serde_json::{Value, json};

pub(crate) use hamlyn_tests::eventually::eventually;
pub(crate) use turn::{
    Right, Turn, lab, lab_of, shared, shared_as, shared_of, shared_reordering, shared_three, turn,
};

/// Returns the amount of work for a long test: `all` for `./scripts/test --long`, else `part`.
pub(crate) fn if_long(all: u32, part: u32) -> u32 {
    if std::env::var_os("HAMLYN_LONG").is_some() { all } else { part }
}

/// Waits until machine 0 finds a name at host 1 only. A host that is slow to answer is not in the
/// result, so one lookup is not enough.
pub(crate) fn finds(lab: &Lab, name: &str) -> anyhow::Result<()> {
    let found =
        || Ok(lab.vm(0).run(["hamlyn-info", "--find", name, "--json"])?.finish()?[0]["hosts"] == json!([1]));
    eventually(found, name)
}

/// Returns a field of an answer as text.
pub(crate) fn text(answer: &Value, field: &str) -> String {
    answer[field].as_str().unwrap_or_else(|| panic!("no text {field} in {answer}")).to_owned()
}
