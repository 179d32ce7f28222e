//! One run: what is asked for, measured in a good order.

use std::path::PathBuf;

use hamlyn_cli::lab::Accel;

use crate::all_to_all;
use crate::between::{self, AWAKE, Labs, WIDE, WIDE_PACKET};
use crate::effort::Effort;
use crate::estimates::{self, Estimates};
use crate::figures::{self, Figures, USUAL_PACKET};
use crate::goals::Goal;
use crate::host::{self, Peer};
use crate::idle;
use crate::machines::{Layout, Machines};
use crate::paths;
use crate::plot::Figure;
use crate::progress::Progress;
use crate::report::{Facts, Results, Table};
use crate::scale;
use crate::server::{self, Length};
use crate::table4;
use crate::track::Track;

/// What can be measured besides the paper's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Goals 1 to 6: between two machines.
    Machines,
    /// Goal 7: beside what nobody uses.
    Scale,
    /// Every process to every other.
    AllToAll,
    /// Goal 8: on the host, and other libraries there.
    Host,
    /// Goal 9: the parts of a card by themselves, and the library's instructions.
    Parts,
    /// Table 4: the card without the library, and the parts of a message's time.
    Table4,
    /// A whole program: the key-value server, over the card and over TCP.
    Server,
}

impl Topic {
    /// Those with goals.
    pub const GOALS: [Topic; 4] = [Topic::Machines, Topic::Scale, Topic::Host, Topic::Parts];
    /// Those that have a name for the command line.
    pub const NAMED: [(&'static str, Topic); 7] = [
        ("machines", Topic::Machines),
        ("scale", Topic::Scale),
        ("all-to-all", Topic::AllToAll),
        ("host", Topic::Host),
        ("parts", Topic::Parts),
        ("table-4", Topic::Table4),
        ("server", Topic::Server),
    ];
}

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    /// How much.
    pub effort: Effort,
    /// What runs the machines.
    pub accel: Accel,
    /// Whether no more is measured than the goals need.
    pub goals_only: bool,
    /// What is measured besides the paper's figures.
    pub topics: Vec<Topic>,
    /// Which of the paper's figures.
    pub figures: Vec<figures::Name>,
    /// Arguments for the cards.
    pub card_args: Vec<String>,
    /// The folder with UCX, libfabric and valgrind, if they are there.
    pub peers: Option<PathBuf>,
}

/// What has been measured so far.
struct Run<'a> {
    request: &'a Request,
    progress: &'a Progress,
    goals: Vec<Goal>,
    plots: Vec<Figure>,
    peers: Vec<Peer>,
    tables: Vec<(String, Vec<Track>)>,
    others: Vec<Table>,
    /// The parts by themselves, once they are measured.
    parts: Option<Estimates>,
    /// Short messages with the library and without it.
    short: Vec<Track>,
}

/// Measures what is asked for.
pub fn run(request: &Request, progress: &Progress) -> anyhow::Result<Results> {
    let facts = Facts::gather(&request.accel.decide()?.to_string());
    let mut run = Run::new(request, progress);
    let mut figures = Figures::default();
    run.usual_packet(&mut figures)?;
    if run.wants(Topic::Scale) {
        run.scale();
    }
    if run.wants(Topic::AllToAll) {
        run.all_to_all();
    }
    if run.wants(Topic::Host) {
        run.host();
    }
    if run.wants(Topic::Parts) {
        run.parts();
    }
    if run.wants(Topic::Table4) {
        run.table4_lines();
    }
    for packet in figures::packet_sizes(&request.figures, request.effort) {
        if packet != USUAL_PACKET {
            let card_args = ["--packet-size", &packet.to_string()].map(str::to_owned);
            // The largest packets are for bandwidth, to which pinning gives nothing (docs/performance.md).
            let layout = if packet == WIDE_PACKET { Layout::Fabric } else { Layout::Pinned };
            let machines = run.machines(layout, &card_args, false)?;
            run.figures(&mut figures, &machines, None, packet)?;
        }
    }
    run.goals.sort_by_key(|goal| goal.number);
    run.plots.extend(figures.figures());
    run.tables.push(("Points of the figures".to_owned(), figures.into_tracks()));
    let Run { goals, plots: figures, peers, tables, others, .. } = run;
    Ok(Results { facts, goals, figures, peers, tables, others })
}

impl<'a> Run<'a> {
    fn new(request: &'a Request, progress: &'a Progress) -> Self {
        let (goals, plots, peers, tables, others, parts, short) = Default::default();
        Self { request, progress, goals, plots, peers, tables, others, parts, short }
    }

    fn wants(&self, topic: Topic) -> bool {
        self.request.topics.contains(&topic)
    }

    fn machines(&self, layout: Layout, card_args: &[String], peers: bool) -> anyhow::Result<Machines> {
        let arguments = [card_args, &self.request.card_args].concat();
        let title = format!("start 2 machines, {} {}", layout.text(), arguments.join(" "));
        let (accel, progress) = (self.request.accel, self.progress);
        progress.part(title.trim_end(), || Machines::start(accel, layout, &arguments, peers, progress))
    }

    /// All that machines with the usual packet size are asked for: they start once.
    fn usual_packet(&mut self, figures: &mut Figures) -> anyhow::Result<()> {
        let Request { figures: names, effort, .. } = self.request;
        let has_figures = figures::packet_sizes(names, *effort).contains(&USUAL_PACKET);
        if self.wants(Topic::Machines) {
            let labs = Labs {
                fabric: self.machines(Layout::Pinned, &[], true)?,
                awake: self.machines(Layout::Fabric, &AWAKE.map(str::to_owned), false)?,
                separate: self.machines(Layout::Separate, &[], false)?,
                wide: self.machines(Layout::Fabric, &WIDE.map(str::to_owned), false)?,
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
        let fabric = self.machines(Layout::Pinned, &[], true)?;
        if self.wants(Topic::Server) {
            self.progress.part("TCP's best MTU", || between::tune_tcp(&fabric, self.progress))?;
        }
        self.with_pinned(&fabric);
        if has_figures {
            let separate = self.machines(Layout::Separate, &[], false)?;
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
        let Request { figures: names, effort, .. } = self.request;
        if names.is_empty() {
            return Ok(());
        }
        self.progress.part(&format!("the paper's figures, {packet}-byte packets"), || {
            figures.measure(names, machines, separate, packet, *effort, self.progress);
            Ok(())
        })
    }

    /// Goals 1 to 6.
    fn vm_goals(&mut self, labs: &Labs) -> anyhow::Result<()> {
        let (effort, progress, all) = (self.request.effort, self.progress, !self.request.goals_only);
        let trips = progress.part("round trips of 16 bytes (goals 1, 2, 4)", || {
            Ok(between::round_trips(labs, effort, all, progress))
        })?;
        let rates = progress.part("bandwidth (goal 3)", || between::bandwidths(labs, effort, progress))?;
        let extras = progress.part("traps and system calls (goal 5)", || between::extras(labs, progress));
        let extras = self.noted(extras).unwrap_or_default();
        let idle = progress.part("idle (goal 6)", || {
            let machines = [&labs.fabric, &labs.separate].into_iter();
            let seconds = effort.pick(3, 20);
            machines.map(|machines| idle::measure(machines, seconds, progress)).collect::<anyhow::Result<_>>()
        });
        let idle: Vec<_> = self.noted(idle).unwrap_or_default();
        self.goals.extend(between::latency_goals(&trips));
        self.goals.extend(between::bandwidth_goals(&rates));
        self.goals.extend(between::extras_goals(&extras));
        self.goals.extend(idle::goals(&idle));
        self.plots.push(between::percentiles(&trips));
        self.others.push(between::extras_table(&extras));
        self.tables.push(("Round trips of 16 bytes between two machines".to_owned(), trips));
        self.tables.push(("One-way bandwidth between two machines".to_owned(), rates));
        Ok(())
    }

    /// Goal 7.
    fn scale(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let scales =
            progress.part("round trips beside idle cards (goal 7)", || scale::on_host(effort, progress));
        let mut scales = self.noted(scales).unwrap_or_default();
        let all = !self.request.goals_only;
        let machines = self.machines(Layout::Pinned, &scale::CARD_ARGS.map(str::to_owned), false);
        if let Some(machines) = self.noted(machines) {
            let between = progress.part("beside idle termini, slots and processes (goal 7)", || {
                machines.share_all()?;
                Ok(scale::between_machines(&machines, effort, all, progress))
            });
            scales.extend(self.noted(between).unwrap_or_default());
        }
        self.goals.extend(scale::goals(&scales));
        self.plots.push(scale::figure(&scales));
        let tracks = scale::into_tracks(scales);
        self.tables.push(("Round trips beside what nobody uses".to_owned(), tracks));
    }

    /// What is measured between pinned machines besides goals and figures.
    fn with_pinned(&mut self, machines: &Machines) {
        if self.wants(Topic::Table4) {
            let (effort, progress) = (self.request.effort, self.progress);
            let tracks = progress
                .part("Table 4", || Ok(table4::measure(machines, effort, progress)))
                .unwrap_or_default();
            self.short = tracks;
        }
        if self.wants(Topic::Server) {
            self.server(machines);
        }
    }

    /// Table 4, once its parts are known.
    fn table4_lines(&mut self) {
        let parts = self.parts.take().unwrap_or_else(|| self.estimates());
        self.others.push(table4::table(&self.short, &parts));
        let tracks = std::mem::take(&mut self.short);
        self.tables.push(("Table 4: with the library and without it".to_owned(), tracks));
    }

    /// The parts by themselves.
    fn estimates(&self) -> Estimates {
        let (effort, progress) = (self.request.effort, self.progress);
        let parts =
            progress.part("the parts by themselves (goal 9)", || estimates::measure(effort, progress));
        self.noted(parts).unwrap_or_default()
    }

    /// The key-value server over the card and over TCP, whose MTU has been chosen.
    fn server(&mut self, machines: &Machines) {
        let Request { topics, figures, effort, .. } = self.request;
        // A whole run has little time for each thing.
        let quick = if topics.len() + figures.len() > 1 { Length::Brief } else { Length::Usual };
        let (length, progress) = (effort.pick(quick, Length::Full), self.progress);
        let tracks = progress
            .part("the key-value server", || Ok(server::measure(machines, length, progress)))
            .unwrap_or_default();
        self.plots.push(server::figure(&tracks));
        self.others.extend(server::tables(&tracks));
        self.tables.push(("Requests of the key-value server between two machines".to_owned(), tracks));
    }

    fn all_to_all(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let all = progress.part("all-to-all", || all_to_all::measure(effort, progress));
        self.plots.extend(self.noted(all).map(|all| all_to_all::figure(&all)));
    }

    /// Goal 8.
    fn host(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let trips =
            progress.part("programs of the host at cards (goal 8)", || host::round_trips(effort, progress));
        let mut trips = self.noted(trips).unwrap_or_default();
        let folder = self.request.peers.as_deref();
        let alone = progress.part("everything in one process, UCX and libfabric (goal 8)", || {
            host::alone_and_peers(folder, effort, progress)
        });
        if let Some((alone, peers)) = self.noted(alone) {
            trips.push(alone);
            self.peers = peers;
        }
        self.goals.extend(host::goals(&trips, &self.peers));
        self.tables.push(("Round trips on the host, with no machine".to_owned(), trips));
    }

    /// Goal 9, and the library's instructions.
    fn parts(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let parts = self.estimates();
        self.others.push(estimates::table(&parts));
        self.parts = Some(parts);
        let turns = progress.part("card and copies in turn (goal 9)", || estimates::turns(effort));
        self.goals.extend(estimates::goals(&self.noted(turns).unwrap_or_default()));
        if let Some(folder) = self.request.peers.as_ref().filter(|_| !self.request.goals_only) {
            let paths = progress.part("instructions of the library", || paths::measure(folder));
            self.others.extend(self.noted(paths).map(|paths| paths::table(&paths)));
        }
    }

    /// A part that does not work leaves its goals unmeasured, and the others as they are.
    fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
