//! The machines: pairs that run at the same time. All pairs are pinned to cores or none is, so that
//! their conditions are equal.

use hamlyn_host::catalogue;
use hamlyn_lab::Snoop;

use crate::engine::machines::{Layout, Machines, Wish};
use crate::engine::run::Run;

/// Three pairs of machines.
#[derive(Debug)]
pub(crate) struct Labs {
    /// The card snoops their processors' stores. None if that is impossible: with hardware
    /// virtualisation.
    pub(crate) snooped: Option<Machines>,
    /// They store to window pages; their QEMU has no plugin.
    pub(crate) window: Machines,
    /// Machines with Hamlyn cards, and with the devices that are the alternatives to any card.
    pub(crate) hamlyn: Machines,
}

/// Labels of the two ways of stores.
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

    /// Returns the pairs with SHRIMP cards: the label for their way of stores, and the programs'
    /// option.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (&'static str, &'static str, &Machines)> {
        let snooped = self.snooped.iter().map(|machines| (SNOOPED, "snoop", machines));
        snooped.chain([(WINDOW, "window", &self.window)])
    }
}
