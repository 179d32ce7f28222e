//! The protocol from the client's side: each command valid, malformed, out of order, truncated, and
//! oversized.
//!
//! All files use raw bytes written by hand, except for `peer` and `cloud_hypervisor`. These use the
//! crate `vfio_user` as an independent client.

mod access;
mod backed;
mod cloud_hypervisor;
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
