//! Prints Table 1 of the SHRIMP paper, the instructions of its message-passing primitives, with what is counted here beside it:
//! `./scripts/prepare && cargo run -p hamlyn-tests --example instructions`.

// The tests use the rest.
#[allow(dead_code)]
#[path = "../tests/common/instructions.rs"]
mod instructions;

use anyhow::Result;
use hamlyn_host::catalogue;
use hamlyn_lab::Lab;

fn main() -> Result<()> {
    let lab = Lab::builder().models(&[catalogue::find("shrimp")?]).vms(2).start()?;
    print!("{}", instructions::table(&lab)?);
    Ok(())
}
