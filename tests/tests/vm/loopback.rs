//! A process that sends to itself (section 4.3, Figure 10), and to another process of its own
//! machine.

use anyhow::{Context, Result, ensure};

use crate::messages::{ping_pong, transfer};
use crate::shared;

#[test]
fn loopback_reaches_the_same_card_and_process() -> Result<()> {
    let lab = shared();
    let result = lab.vm(0).run(["loopback"])?.finish()?.pop().context("a result")?;
    ensure!(result["verified"] == true && result["short"] == 1000, "{result}");
    ping_pong(&lab, 0, 0, 200)?;
    transfer(&lab, 0, 0, 1 << 20)?;
    ensure!(lab.refused(0)? == 0);
    Ok(())
}
