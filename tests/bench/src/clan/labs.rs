//! The machines: pairs of them that run at once, all pinned to cores or none, so that all have the
//! same.

use hamlyn_host::catalogue;
use hamlyn_lab::Snoop;

use crate::engine::exchange::words;
use crate::engine::machines::{Layout, Machines, Wish};
use crate::engine::run::Run;

/// With CLAN cards. One user may have all of a card: a server with a thousand connections needs it.
pub(crate) fn clan(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    let machines = run.machines(layout, &[], false)?;
    machines.share_all()?;
    Ok(machines)
}

/// With CLAN cards that join nothing (section 5.2).
pub(crate) fn unjoined(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.machines(layout, &words("--join 0"), false)
}

/// With SHRIMP cards, whose stores go to window pages as CLAN's do.
pub(crate) fn shrimp(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.start(Wish { snoop: Snoop::No, ..other(run, layout, "shrimp")? })
}

/// With Hamlyn cards, and the devices that people would use instead of any.
pub(crate) fn hamlyn(run: &Run<'_>, layout: Layout) -> anyhow::Result<Machines> {
    run.start(Wish { peers: true, ..other(run, layout, "hamlyn")? })
}

fn other<'a>(run: &Run<'_>, layout: Layout, model: &str) -> anyhow::Result<Wish<'a>> {
    let (model, accel) = (catalogue::find(model)?, run.request.accel);
    Ok(Wish { model, accel, layout, snoop: Snoop::Auto, card_args: &[], peers: false })
}
