//! Demo of the Hamlyn card.

mod scenes;
mod table;

use std::io::{Write, stdout};

use anyhow::{Context, bail};

use super::channel::{self, Carrier};
use super::show::{Hints, Show};
use super::stage::Stage;
use super::{DemoArgs, find_drivers, start};
use crate::commands::layout::Layout;
use hamlyn_lab::Lab;
use scenes::{Intrusion, RoundTrips, Transfer};
use table::Table;

/// Demo, self-test and hints of the Hamlyn card.
pub(super) static SHOW: Show = Show {
    scenes: show,
    self_test: "self-test",
    exercises: &["driver-check calls", "driver-check tables"],
    hints: Hints {
        first: "hamlyn-ping",
        does: "answers the messages of others",
        second: "hamlyn-ping 0",
        asks: "asks vm0's card, until Ctrl-C",
        more: &["hamlyn-info", "hamlyn-perf", "ping-pong", "transfer", "intrude"],
    },
};

/// Bytes of a transfer, and number of send buffers that it is gathered from.
const TRANSFER_BYTES: u64 = 1 << 20;
const SEND_BUFFERS: u64 = 4;

/// The payload of a round trip, in bytes.
const PAYLOAD: u64 = 16;

fn show(args: &DemoArgs) -> anyhow::Result<()> {
    let stage = Stage::new();
    let layout = args.machine.layout(2);
    let lab = start(&stage, &DemoArgs { machine: args.machine.with_express(), ..*args }, &layout)?;
    stage.step("find the card's driver in both machines", |_| find_drivers(&lab, "hamlyn"))?;
    let mut round_trips = vec![(layout.clone(), round_trips_of(&stage, &lab, args.count)?)];
    let channels = channel::round_trips(&stage, &lab, &[Carrier::Card, Carrier::Express], args.count)?;
    let mut transfers = Vec::new();
    for (from, to) in [(0, 1), (1, 0)] {
        let transfer = Transfer { from, to, bytes: TRANSFER_BYTES, buffers: SEND_BUFFERS };
        let title = format!("1 MiB from vm{from} to vm{to}, every byte verified");
        transfers.push((transfer, stage.step(&title, |_| transfer.run(&lab))?));
    }
    let mut refusals = Vec::new();
    for intrusion in [Intrusion::WrongKey, Intrusion::PastEnd] {
        let refused = stage.step(intrusion.title(), |_| intrusion.run(&lab))?;
        refusals.push((intrusion, refused));
    }
    lab.check().context("after the last message")?;
    drop(lab);
    if layout != Layout::Isolated {
        let lab = start(&stage, args, &Layout::Isolated)?;
        round_trips.push((Layout::Isolated, round_trips_of(&stage, &lab, args.count)?));
        lab.check().context("after the last round trip")?;
    }
    let table = Table { payload: PAYLOAD, round_trips, channels, transfers, refusals };
    write!(stdout(), "\n{table}")?;
    for (layout, trips) in &table.round_trips {
        if trips.count != args.count {
            bail!("{} round trips of {} were made ({layout})", trips.count, args.count);
        }
    }
    Ok(())
}

fn round_trips_of(stage: &Stage, lab: &Lab, count: u64) -> anyhow::Result<RoundTrips> {
    let title = format!("{count} round trips of {PAYLOAD} bytes");
    stage.step(&title, |_| scenes::round_trips(lab, count, PAYLOAD))
}
