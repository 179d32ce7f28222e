//! Opcodes, composed of the numbers in `docs/dart.md`.

pub(crate) const NONE: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const READ: u32 = 3;
pub(crate) const ANSWER: u32 = 5;

pub(crate) const INDIRECT: u32 = 1 << 3;
pub(crate) const INDEXED: u32 = 2 << 3;
pub(crate) const COMPARED_FIRST: u32 = 3 << 5;

pub(crate) const MOVE: u32 = 1;
pub(crate) const INCREMENT: u32 = 4;
pub(crate) const DECREMENT: u32 = 5;
pub(crate) const ADD: u32 = 6;
pub(crate) const AND: u32 = 8;
pub(crate) const MAXIMUM: u32 = 12;
pub(crate) const REPLACE: u32 = 15;

pub(crate) const EQUAL: u32 = 1;
pub(crate) const LESS: u32 = 3;
pub(crate) const REFUSE: u32 = 1 << 30;

/// A source, or a right side.
pub(crate) mod source {
    pub(crate) const OPERAND: u32 = 0;
    pub(crate) const J: u32 = 2;
    pub(crate) const K: u32 = 3;
}

/// A target, or a left side.
pub(crate) mod target {
    pub(crate) const I: u32 = 0;
    pub(crate) const J: u32 = 1;
}

/// Returns a register operation.
pub(crate) fn operation(which: u32, target: u32, source: u32) -> u32 {
    which | source << 4 | target << 6
}

pub(crate) fn first(operation: u32) -> u32 {
    operation << 8
}

pub(crate) fn second(operation: u32) -> u32 {
    operation << 16
}

pub(crate) fn compare(left: u32, which: u32, right: u32) -> u32 {
    which << 24 | left << 27 | right << 28
}
