//! The protocol from the client's side: each command good, malformed, out of order, truncated,
//! oversized.
//!
//! Raw bytes by hand in all files but `peer` and `cloud_hypervisor`, which let the crate
//! `vfio_user` be an independent client.

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
