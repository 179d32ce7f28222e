//! The machines: pairs that run at the same time. All pairs are pinned to cores or none is, so that
//! their conditions are equal.

use hamlyn_host::catalogue;
use hamlyn_lab::Snoop;

use crate::engine::exchange::words;
use crate::engine::machines::{Layout, Machines, Wish};
use crate::engine::run::Run;

/// Starts machines with CLAN cards. One user may have all of a card, because a server with a
/// thousand connections needs it.
pub(crate) fn clan(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    let machines = run.machines(layout, &[], false)?;
    machines.share_all()?;
    Ok(machines)
}

/// Starts machines with CLAN cards that do not join (section 5.2).
pub(crate) fn unjoined(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.machines(layout, &words("--join 0"), false)
}

/// Starts machines with SHRIMP cards, whose stores go to window pages like CLAN's.
pub(crate) fn shrimp(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.start(Wish { snoop: Snoop::No, ..other(run, layout, "shrimp")? })
}

/// Starts machines with Hamlyn cards, and with the devices that are the alternatives to any card.
pub(crate) fn hamlyn(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.start(Wish { peers: true, ..other(run, layout, "hamlyn")? })
}

fn other<'a>(run: &Run<'_>, layout: Layout, model: &str) -> anyhow::Result<Wish<'a>> {
    let (model, accel) = (catalogue::find(model)?, run.request.accel);
    Ok(Wish { model, accel, layout, snoop: Snoop::Auto, card_args: &[], peers: false })
}
