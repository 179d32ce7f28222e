//! Programs that sleep until their requests are finished.
//!
//! A lost wake-up shows when a fabric has come to rest: its victim still sleeps, and makes no more
//! requests.

use crate::engine::violation::Violation;
use crate::hamlyn::around::Around;
use crate::hamlyn::tally::Tally;

/// Puts a program to sleep until some of its requests are finished. Meanwhile it posts nothing
/// and asks for nothing.
pub(super) fn doze(
    around: &mut Around<'_>,
    tally: &mut Tally,
    host: usize,
    process: usize,
) -> Result<(), Violation> {
    // The step decides, so that the seed's other choices do not change.
    let chosen = (around.step + process as u64) % 4 == 0;
    let machine = around.hosts[host].machine.clone();
    let Some(program) = around.hosts[host].program_mut(process) else { return Ok(()) };
    if !chosen || !around.scenario.senders_sleep || program.dozes.is_some() || program.outlet.in_flight() == 0
    {
        return Ok(());
    }
    let number = program.outlet.terminus().number();
    let wanted = program.outlet.posted() - around.step % program.outlet.in_flight() as u64;
    if machine.arm_terminus(number, wanted as u32) {
        return Ok(());
    }
    program.dozes = Some(wanted);
    tally.dozed += 1;
    around.note(|| format!("host {host} process {process} sleeps until {wanted} requests are finished"));
    Ok(())
}
