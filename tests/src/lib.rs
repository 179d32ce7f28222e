//! What several tests of the whole share, and the deliberate breaks. The tests are in `tests/`.

pub mod desk;
pub mod eventually;
pub mod instructions;
pub mod killed;
pub mod mutants;
pub mod program;
pub mod python;
