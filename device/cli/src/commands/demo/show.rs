//! Demo and hints of a model.

use super::DemoArgs;

/// Demo, self-test and hints of a model.
pub(in crate::commands) struct Show {
    /// The demo.
    pub(super) scenes: fn(&DemoArgs) -> anyhow::Result<()>,
    /// Self-test of the module with such a card: a program of the image, and its arguments.
    pub(in crate::commands) self_test: &'static str,
    /// Programs of the image, with their arguments, that use all kinds of the card's objects. They
    /// need one machine, and leave nothing behind. The image of a demo does not have them.
    pub(in crate::commands) exercises: &'static [&'static str],
    /// Programs to try by hand.
    pub(in crate::commands) hints: Hints,
}

/// Programs of the machines' image that a user can try.
pub(in crate::commands) struct Hints {
    /// Program to start in the first machine, and what it does.
    pub(in crate::commands) first: &'static str,
    pub(in crate::commands) does: &'static str,
    /// Program to start then in the second machine, and what it does.
    pub(in crate::commands) second: &'static str,
    pub(in crate::commands) asks: &'static str,
    /// Other programs.
    pub(in crate::commands) more: &'static [&'static str],
}
