//! The plugin of QEMU that tells a card of its machine's stores.
//!
//! `qemu-system-x86_64 ... -plugin libhamlyn_snoop.so,socket=PATH`, where a card listens
//! (`hamlyn_snoop::card`). If there is no card, or an argument is wrong, it says so and QEMU does
//! not start.
//!
//! | module | holds |
//! |---|---|
//! | `foreign` | QEMU's interface for plugins, and ours for QEMU: all that is not safe |
//! | `snooper` | what is done about a store, and when code is to tell of its stores |
//! | `known` | pages that are known not to be watched, by their virtual address |
//! | `decode` | the instructions after which a virtual address may mean another page |
//!
//! **What is told.** Each store of an instruction, once it is made: its guest-physical address, its
//! width and its value. A vector of 32 bytes is two stores of 16, and a number of 80 bits one of 8
//! and one of 2, as QEMU makes them; what crosses a page is one store in each. Device memory is not
//! told. Nor is what no instruction stores, as QEMU tells no plugin of it: what a processor writes
//! when it takes an interrupt, or to its page tables, and what devices write.
//!
//! **In which order.** A processor's own stores come in program order. For all of them to be in the
//! order in which memory saw them, QEMU must run one processor at a time (`-accel
//! tcg,thread=single`): where several run side by side it tells of a store some time after the
//! store, and wrong values of locked instructions. So with more than one processor this is refused.
//!
//! **What it costs.** Nothing while nothing is watched: code is translated without any call. As
//! soon as something is watched the next interrupt of any processor has all code translated again
//! (`hamlyn_snoop`'s `live` has the handshake). Then each store calls `snooper`, which mostly
//! returns after two loads and a comparison.

mod decode;
mod foreign;
mod known;
mod snooper;
