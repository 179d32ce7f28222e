//! Tests of the card on hosts in memory. They are one program, so that shared code is compiled
//! once.

mod commands;
mod completions;
mod exact;
mod fairness;
mod fetch;
mod handshake;
mod hostile;
mod last_look;
mod messages;
mod notification_order;
mod overrun;
mod privilege;
mod retractions;
mod sram;
mod stops;
mod support;
