//! Goal 7, between machines: round trips while a card holds much that nobody uses.

use crate::effort::Effort;
use crate::exchange::Exchange;
use crate::goals::{Goal, Need};
use crate::machines::Machines;
use crate::progress::Progress;
use crate::track::{Track, find, interleave};

/// Room for everything.
pub const CARD_ARGS: [&str; 4] = ["--termini", "1024", "--sram", "8388608"];

const FEW: &str = "card, 16-byte tagged remote write, 1 terminus and 1 slot at each end";
const TERMINI: &str = "the same with 1,000 idle termini at each end";
const SLOTS: &str = "the same with 10,000 idle slots at each end";

/// Round trips with few and with many idle objects, in turn.
pub fn round_trips(machines: &Machines, effort: Effort, progress: &Progress) -> Vec<Track> {
    let count = effort.pick(1000, 5000);
    let pair = |idle: &str| {
        let arguments = format!("--wait poll --count {count} {idle}");
        let (ping, echo) = (format!("card-ping {arguments}"), format!("card-echo {arguments}"));
        Exchange::between(machines.near(), ping.trim_end(), machines.far(), echo.trim_end())
    };
    let exchanges =
        [(FEW, pair("")), (TERMINI, pair("--idle-termini 1000")), (SLOTS, pair("--idle-slots 10000"))];
    interleave(&exchanges, effort.rounds(), progress)
}

/// Two of goal 7's figures.
pub fn goals(tracks: &[Track]) -> Vec<Goal> {
    let p50 = |name: &str| find(tracks, name).and_then(Track::p50_us);
    let grows = |what: &str, name: &str| {
        Goal::beside(7, what, "us", p50(name), ("with 1", p50(FEW)), Need::RatioAtMost(1.1))
    };
    vec![grows("round trip with 1,000 idle termini", TERMINI), grows("round trip with 10,000 slots", SLOTS)]
}
