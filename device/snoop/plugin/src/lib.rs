//! The QEMU plugin that reports a machine's stores to a card.
//!
//! `qemu-system-x86_64 ... -plugin libhamlyn_snoop.so,socket=PATH`, where a card listens
//! (`hamlyn_snoop::card`). If there is no card, or an argument is wrong, it prints a message, and
//! QEMU does not start.
//!
//! | module | holds |
//! |---|---|
//! | `foreign` | QEMU's interface for plugins, and our callbacks: all unsafe code |
//! | `snooper` | the handling of a store, and the switch between plain and reporting code |
//! | `known` | pages that are known not to be watched, by virtual address |
//! | `decode` | the instructions after which a virtual address may map to another page |
//!
//! **What is reported.** Each store of an instruction, after it was made, with its guest-physical
//! address, width and value. As QEMU makes them, a vector of 32 bytes is two stores of 16. An
//! 80-bit number is one store of 8 and one of 2. A store that crosses a page is one in each page.
//! Stores to device memory are not reported. Writes that no instruction makes are not reported
//! either, because QEMU does not show them to plugins. These are a processor's writes when it takes
//! an interrupt, its writes to its page tables, and the writes of devices.
//!
//! **Order.** A processor's own stores are reported in program order. To have all stores in the
//! order in which memory saw them, QEMU must run one processor at a time
//! (`-accel tcg,thread=single`). Where several run in parallel, QEMU reports a store some time
//! after it was made, and reports wrong values for locked instructions. So more than one processor
//! in parallel is refused.
//!
//! **Cost.** Nothing while nothing is watched: code is translated without any call. As soon as
//! something is watched, the next interrupt of any processor causes all code to be translated again
//! (`hamlyn_snoop`'s `live` has the handshake). Then each store calls `snooper`, which mostly
//! returns after two loads and a comparison.

mod decode;
mod foreign;
mod known;
mod snooper;
