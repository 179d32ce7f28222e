//! Counts the instructions of the message-passing primitives, and writes them into the table of
//! `docs/shrimp.md`, together with those of the SHRIMP paper's Table 1: `./scripts/prepare && cargo
//! run -p hamlyn-tests --example instructions`.

use anyhow::Result;
use hamlyn_host::catalogue;
use hamlyn_lab::Lab;
use hamlyn_tests::instructions;

fn main() -> Result<()> {
    let lab = Lab::builder().models(&[catalogue::find("shrimp")?]).vms(2).start()?;
    let table = instructions::table(&lab)?;
    print!("{table}");
    instructions::document(&table)
}
