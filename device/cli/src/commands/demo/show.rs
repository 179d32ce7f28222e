//! What a person is shown of each model: a line for each.

use hamlyn_host::catalogue::PerModel;

use super::{DemoArgs, clan, dart, echo, hamlyn, shrimp};

/// What there is to show.
pub(in crate::commands) struct Show {
    /// The demo.
    pub(super) scenes: fn(&DemoArgs) -> anyhow::Result<()>,
    /// What tests the module with such a card in a machine: a program of the image, and its words.
    pub(in crate::commands) self_test: &'static str,
    /// What to try by hand.
    pub(in crate::commands) hints: Hints,
}

/// Programs of the machines' image that a person can try.
pub(in crate::commands) struct Hints {
    /// What to start in the first machine, and what it does.
    pub(in crate::commands) first: &'static str,
    pub(in crate::commands) does: &'static str,
    /// What to start in the second then, and what that does.
    pub(in crate::commands) second: &'static str,
    pub(in crate::commands) asks: &'static str,
    /// Others.
    pub(in crate::commands) more: &'static [&'static str],
}

/// By model.
pub(in crate::commands) static SHOWS: PerModel<&Show> = PerModel::new(
    "scenes for the demo",
    &[
        ("hamlyn", &hamlyn::SHOW),
        ("echo", &echo::SHOW),
        ("shrimp", &shrimp::SHOW),
        ("clan", &clan::SHOW),
        ("dart", &dart::SHOW),
    ],
);
