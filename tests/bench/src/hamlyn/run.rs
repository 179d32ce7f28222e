//! Runs all measurements of Hamlyn cards, in a good order.

use crate::engine::estimates::{self, Estimates};
use crate::engine::extras;
use crate::engine::idle;
use crate::engine::machines::{Layout, Machines};
use crate::engine::paths;
use crate::engine::run::Run;
use crate::engine::tcp;
use crate::engine::track::Track;
use crate::hamlyn::all_to_all;
use crate::hamlyn::between::{self, AWAKE, Labs, WIDE, WIDE_PACKET};
use crate::hamlyn::choice::{Topic, wanted};
use crate::hamlyn::figures::{self, Figures, Name, USUAL_PACKET};
use crate::hamlyn::on_host;
use crate::hamlyn::paths::PATHS;
use crate::hamlyn::scale;
use crate::hamlyn::server::{self, Length};
use crate::hamlyn::table4;
use crate::hamlyn::turns;

/// The note below the table of the components.
const PACKET_TOOK: &str = "What a packet took the paper's interface processor: 12.5 us (section 4.2).";

/// The measurements so far, and those still to do.
struct Measured<'r, 'a> {
    run: &'r mut Run<'a>,
    /// The paper's figures to measure.
    names: Vec<Name>,
    /// The other topics to measure.
    topics: Vec<Topic>,
    /// The results of the components alone, once they are measured.
    parts: Option<Estimates>,
    /// Short messages with the library and without it.
    short: Vec<Track>,
}

/// Measures the request.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (names, topics) = wanted(&run.request.figures, run.request.goals_only);
    Measured { run, names, topics, parts: None, short: Vec::new() }.measure()
}

impl Measured<'_, '_> {
    fn measure(&mut self) -> anyhow::Result<()> {
        let mut figures = Figures::default();
        self.usual_packet(&mut figures)?;
        if self.wants(Topic::Scale) {
            self.scale();
        }
        if self.wants(Topic::AllToAll) {
            self.all_to_all();
        }
        if self.wants(Topic::Host) {
            self.host();
        }
        if self.wants(Topic::Parts) {
            self.parts();
        }
        if self.wants(Topic::Table4) {
            self.table4_lines();
        }
        self.other_packets(&mut figures)?;
        self.run.plots.extend(figures.figures());
        self.run.tables.push(("Points of the figures".to_owned(), figures.into_tracks()));
        Ok(())
    }

    fn wants(&self, topic: Topic) -> bool {
        self.topics.contains(&topic)
    }

    /// Measures the figures' needs with other packet sizes.
    fn other_packets(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        for packet in figures::packet_sizes(&self.names, self.run.request.effort) {
            if packet != USUAL_PACKET {
                let card_args = ["--packet-size", &packet.to_string()].map(str::to_owned);
                // The largest packets are only for bandwidth, which pinning does not improve
                // (docs/performance.md).
                let layout = if packet == WIDE_PACKET { Layout::Fabric } else { Layout::Pinned };
                let machines = self.run.machines(layout, &card_args, false)?;
                self.figures(figures, &machines, None, packet)?;
            }
        }
        Ok(())
    }

    /// Measures everything that uses machines with the default packet size, which start only once.
    fn usual_packet(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let (names, effort) = (&self.names, self.run.request.effort);
        let has_figures = figures::packet_sizes(names, effort).contains(&USUAL_PACKET);
        if self.wants(Topic::Machines) {
            let labs = Labs {
                fabric: self.run.machines(Layout::Pinned, &server::CARD_ARGS.map(str::to_owned), true)?,
                awake: self.run.machines(Layout::Fabric, &AWAKE.map(str::to_owned), false)?,
                separate: self.run.machines(Layout::Separate, &[], false)?,
                wide: self.run.machines(Layout::Fabric, &WIDE.map(str::to_owned), false)?,
            };
            self.vm_goals(&labs)?;
            let Labs { fabric, separate, .. } = labs;
            self.with_pinned(&fabric);
            self.figures(figures, &fabric, Some(&separate), USUAL_PACKET)?;
            return Ok(());
        }
        if !has_figures && !self.wants(Topic::Server) && !self.wants(Topic::Table4) {
            return Ok(());
        }
        let fabric = self.run.machines(Layout::Pinned, &server::CARD_ARGS.map(str::to_owned), true)?;
        if self.wants(Topic::Server) {
            self.run.progress.part("TCP's best MTU", || tcp::tune(&fabric, self.run.progress))?;
        }
        self.with_pinned(&fabric);
        if has_figures {
            let separate = self.run.machines(Layout::Separate, &[], false)?;
            self.figures(figures, &fabric, Some(&separate), USUAL_PACKET)?;
        }
        Ok(())
    }

    fn figures(
        &self,
        figures: &mut Figures,
        machines: &Machines,
        separate: Option<&Machines>,
        packet: u32,
    ) -> anyhow::Result<()> {
        let (names, effort) = (&self.names, self.run.request.effort);
        if names.is_empty() {
            return Ok(());
        }
        self.run.progress.part(&format!("the paper's figures, {packet}-byte packets"), || {
            figures.measure(names, machines, separate, packet, effort, self.run.progress);
            Ok(())
        })
    }

    /// Goals 1 to 6.
    fn vm_goals(&mut self, labs: &Labs) -> anyhow::Result<()> {
        let (effort, progress, all) =
            (self.run.request.effort, self.run.progress, !self.run.request.goals_only);
        let trips = progress.part("round trips of 16 bytes (goals 1, 2, 4)", || {
            Ok(between::round_trips(labs, effort, all, progress))
        })?;
        let rates = progress.part("bandwidth (goal 3)", || between::bandwidths(labs, effort, progress))?;
        let extras = progress.part("traps and system calls (goal 5)", || between::extras(labs, progress));
        let extras = self.run.noted(extras).unwrap_or_default();
        let idle = progress.part("idle (goal 6)", || {
            let machines = [&labs.fabric, &labs.separate].into_iter();
            let seconds = effort.pick(3, 20);
            machines
                .map(|machines| idle::measure(machines, "card-doze", seconds, progress))
                .collect::<anyhow::Result<_>>()
        });
        let idle: Vec<_> = self.run.noted(idle).unwrap_or_default();
        self.run.goals.extend(between::latency_goals(&trips));
        self.run.goals.extend(between::bandwidth_goals(&rates));
        self.run.goals.extend(between::extras_goals(&extras));
        self.run.goals.extend(between::idle_goals(&idle));
        self.run.plots.push(between::percentiles(&trips));
        self.run.others.push(extras::table(&extras));
        self.run.tables.push(("Round trips of 16 bytes between two machines".to_owned(), trips));
        self.run.tables.push(("One-way bandwidth between two machines".to_owned(), rates));
        Ok(())
    }

    /// Goal 7.
    fn scale(&mut self) {
        let (effort, progress) = (self.run.request.effort, self.run.progress);
        let scales =
            progress.part("round trips beside idle cards (goal 7)", || scale::on_host(effort, progress));
        let mut scales = self.run.noted(scales).unwrap_or_default();
        let all = !self.run.request.goals_only;
        let machines = self.run.machines(Layout::Pinned, &scale::CARD_ARGS.map(str::to_owned), false);
        if let Some(machines) = self.run.noted(machines) {
            let between = progress.part("beside idle termini, slots and processes (goal 7)", || {
                machines.share_all()?;
                Ok(scale::between_machines(&machines, effort, all, progress))
            });
            scales.extend(self.run.noted(between).unwrap_or_default());
        }
        self.run.goals.extend(scale::goals(&scales));
        self.run.plots.push(scale::figure(&scales));
        let tracks = scale::into_tracks(scales);
        self.run.tables.push(("Round trips beside what nobody uses".to_owned(), tracks));
    }

    /// Measures everything between pinned machines that is neither goals nor figures.
    fn with_pinned(&mut self, machines: &Machines) {
        if self.wants(Topic::Table4) {
            let (effort, progress) = (self.run.request.effort, self.run.progress);
            let tracks = progress
                .part("Table 4", || Ok(table4::measure(machines, effort, progress)))
                .unwrap_or_default();
            self.short = tracks;
        }
        if self.wants(Topic::Server) {
            self.server(machines);
        }
    }

    /// Adds Table 4, once its components are known.
    fn table4_lines(&mut self) {
        let parts = self.parts.take().unwrap_or_else(|| self.estimates());
        self.run.others.push(table4::table(&self.short, &parts));
        let tracks = std::mem::take(&mut self.short);
        self.run.tables.push(("Table 4: with the library and without it".to_owned(), tracks));
    }

    /// Measures the components alone.
    fn estimates(&self) -> Estimates {
        self.run.estimates("the parts by themselves (goal 9)")
    }

    /// Measures the key-value server over the card and over TCP, whose MTU has been chosen.
    fn server(&mut self, machines: &Machines) {
        let (topics, names, effort) = (&self.topics, &self.names, self.run.request.effort);
        // A whole run has little time for each measurement.
        let quick = if topics.len() + names.len() > 1 { Length::Brief } else { Length::Usual };
        let (length, progress) = (effort.pick(quick, Length::Full), self.run.progress);
        let tracks = progress
            .part("the key-value server", || Ok(server::measure(machines, length, progress)))
            .unwrap_or_default();
        self.run.plots.push(server::figure(&tracks));
        self.run.others.extend(server::tables(&tracks));
        self.run.tables.push(("Requests of the key-value server between two machines".to_owned(), tracks));
    }

    fn all_to_all(&mut self) {
        let (effort, progress) = (self.run.request.effort, self.run.progress);
        let all = progress.part("all-to-all", || all_to_all::measure(effort, progress));
        self.run.plots.extend(self.run.noted(all).map(|all| all_to_all::figure(&all)));
    }

    /// Goal 8.
    fn host(&mut self) {
        let (effort, progress) = (self.run.request.effort, self.run.progress);
        let trips = progress
            .part("programs of the host at cards (goal 8)", || on_host::round_trips(effort, progress));
        let mut trips = self.run.noted(trips).unwrap_or_default();
        let folder = self.run.request.peers.as_deref();
        let alone = progress.part("everything in one process, UCX and libfabric (goal 8)", || {
            on_host::alone_and_peers(folder, effort, progress)
        });
        if let Some((alone, peers)) = self.run.noted(alone) {
            trips.push(alone);
            self.run.peers = peers;
        }
        self.run.goals.extend(on_host::goals(&trips, &self.run.peers));
        self.run.tables.push(("Round trips on the host, with no machine".to_owned(), trips));
    }

    /// Goal 9, and the library's instructions.
    fn parts(&mut self) {
        let (effort, progress) = (self.run.request.effort, self.run.progress);
        let parts = self.estimates();
        self.run.others.push(estimates::table(&parts, PACKET_TOOK));
        self.parts = Some(parts);
        let turns = progress.part("card and copies in turn (goal 9)", || turns::measure(effort));
        self.run.goals.extend(turns::goals(&self.run.noted(turns).unwrap_or_default()));
        if let Some(folder) = self.run.request.peers.as_ref().filter(|_| !self.run.request.goals_only) {
            let paths = progress
                .part("instructions of the library", || paths::measure(folder, self.run.model, &PATHS));
            self.run.others.extend(self.run.noted(paths).map(|costs| paths::table(&costs, &PATHS)));
        }
    }
}
