//! Tests of the SHRIMP card on hosts in memory.

mod arriving;
mod automatic;
mod deliberate;
mod entries;
mod flow;
mod properties;
mod refusals;
mod slow;
mod support;
