//! The protocol from the client's side: each command good, malformed, out of order, truncated, oversized.
//!
//! Raw bytes by hand in all files but `peer`, which lets the crate `vfio_user` be an independent client.

mod access;
mod backed;
mod dma;
mod harness;
mod held;
mod hostile;
mod irqs;
mod late_reads;
mod peer;
mod regions;
mod reset;
mod stream;
mod version;
