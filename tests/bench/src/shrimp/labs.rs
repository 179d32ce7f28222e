//! The machines: pairs of them that run at once, all pinned to cores or none, so that all have the
//! same.

use hamlyn_host::catalogue;
use hamlyn_lab::Snoop;

use crate::engine::machines::{Layout, Machines, Wish};
use crate::engine::run::Run;

/// Three pairs of machines.
#[derive(Debug)]
pub(crate) struct Labs {
    /// The card sees their processors' stores. None where it cannot: with hardware virtualisation.
    pub(crate) snooped: Option<Machines>,
    /// They store to window pages; their QEMU has no plugin.
    pub(crate) window: Machines,
    /// With Hamlyn cards, and the devices that people would use instead of any.
    pub(crate) hamlyn: Machines,
}

/// What the two ways of stores are called.
pub(crate) const SNOOPED: &str = "snooped";
pub(crate) const WINDOW: &str = "by window";

impl Labs {
    /// Starts all of them.
    pub(crate) fn start(run: &Run<'_>, layout: Layout) -> anyhow::Result<Self> {
        let own = &run.request.card_args;
        let wish = |snoop| Wish {
            model: run.model,
            accel: run.request.accel,
            layout,
            snoop,
            card_args: own,
            peers: false,
        };
        let snooped = run.start(wish(Snoop::Yes));
        let hamlyn =
            Wish { model: catalogue::find("hamlyn")?, card_args: &[], peers: true, ..wish(Snoop::Auto) };
        Ok(Self {
            snooped: run.noted(snooped),
            window: run.start(wish(Snoop::No))?,
            hamlyn: run.start(hamlyn)?,
        })
    }

    /// The pairs with SHRIMP cards: what the way of their stores is called, and for the programs.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (&'static str, &'static str, &Machines)> {
        let snooped = self.snooped.iter().map(|machines| (SNOOPED, "snoop", machines));
        snooped.chain([(WINDOW, "window", &self.window)])
    }
}
