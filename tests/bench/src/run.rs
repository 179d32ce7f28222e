//! One run: what is asked for, measured in a good order.

use std::path::PathBuf;

use hamlyn_cli::lab::Accel;

use crate::between;
use crate::effort::Effort;
use crate::figures::{self, Figures, USUAL_PACKET};
use crate::goals::Goal;
use crate::host::{self, Peer};
use crate::idle;
use crate::machines::Machines;
use crate::one_process;
use crate::parts;
use crate::plot::Figure;
use crate::progress::Progress;
use crate::report::{Facts, Results};
use crate::scale;
use crate::track::Track;

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    /// How much.
    pub effort: Effort,
    /// What runs the machines.
    pub accel: Accel,
    /// Whether the goals are measured.
    pub goals: bool,
    /// Which of the paper's figures.
    pub figures: Vec<figures::Name>,
    /// Arguments for the cards.
    pub card_args: Vec<String>,
    /// The folder with UCX and libfabric, if they are there.
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
}

/// Measures what is asked for.
pub fn run(request: &Request, progress: &Progress) -> anyhow::Result<Results> {
    let facts = Facts::gather(&request.accel.decide()?.to_string());
    let mut run = Run {
        request,
        progress,
        goals: Vec::new(),
        plots: Vec::new(),
        peers: Vec::new(),
        tables: Vec::new(),
    };
    let mut figures = Figures::default();
    let mut packets = figures::packet_sizes(&request.figures, request.effort);
    if request.goals {
        packets.remove(&USUAL_PACKET);
        let machines = run.machines(&[], true)?;
        run.vm_goals(&machines)?;
        run.figures(&mut figures, &machines, USUAL_PACKET)?;
        drop(machines);
        run.scale_goals()?;
        run.host_goals();
        run.parts_goals();
    }
    for packet in packets {
        let machines =
            run.machines(&["--packet-size".to_owned(), packet.to_string()], packet == USUAL_PACKET)?;
        run.figures(&mut figures, &machines, packet)?;
    }
    run.goals.sort_by_key(|goal| goal.number);
    run.plots.extend(figures.figures());
    run.tables.push(("Points of the figures".to_owned(), figures.into_tracks()));
    Ok(Results { facts, goals: run.goals, figures: run.plots, peers: run.peers, tables: run.tables })
}

impl Run<'_> {
    fn machines(&self, card_args: &[String], peers: bool) -> anyhow::Result<Machines> {
        let arguments = [card_args, &self.request.card_args].concat();
        let title = format!("start 2 machines {}", arguments.join(" "));
        let accel = self.request.accel;
        self.progress.part(title.trim_end(), || Machines::start(accel, &arguments, peers, self.progress))
    }

    fn figures(&self, figures: &mut Figures, machines: &Machines, packet: u32) -> anyhow::Result<()> {
        let Request { figures: names, effort, .. } = self.request;
        if names.is_empty() {
            return Ok(());
        }
        self.progress.part(&format!("the paper's figures, {packet}-byte packets"), || {
            figures.measure(names, machines, packet, *effort, self.progress);
            Ok(())
        })
    }

    /// Goals 1 to 6.
    fn vm_goals(&mut self, machines: &Machines) -> anyhow::Result<()> {
        let (effort, progress) = (self.request.effort, self.progress);
        let trips = progress.part("round trips of 16 bytes (goals 1, 2, 4)", || {
            Ok(between::round_trips(machines, effort, progress))
        })?;
        let rates =
            progress.part("bandwidth (goal 3)", || between::bandwidths(machines, effort, progress))?;
        let extras = progress.part("traps and system calls (goal 5)", || between::extras(machines, progress));
        let idle = progress.part("idle (goal 6)", || idle::measure(machines, effort.pick(4, 20), progress));
        self.goals.extend(between::latency_goals(&trips));
        self.goals.extend(between::bandwidth_goals(&rates));
        self.goals.extend(between::extras_goals(self.noted(extras)));
        self.goals.extend(idle::goals(self.noted(idle)));
        self.plots.push(between::percentiles(&trips));
        self.tables.push(("Round trips of 16 bytes between two machines".to_owned(), trips));
        self.tables.push(("One-way bandwidth between two machines".to_owned(), rates));
        Ok(())
    }

    /// Goal 7, as far as it needs machines.
    fn scale_goals(&mut self) -> anyhow::Result<()> {
        let (effort, progress) = (self.request.effort, self.progress);
        let machines = self.machines(&scale::CARD_ARGS.map(str::to_owned), false)?;
        let trips = progress.part("round trips beside idle objects (goal 7)", || {
            Ok(scale::round_trips(&machines, effort, progress))
        })?;
        self.goals.extend(scale::goals(&trips));
        self.tables.push(("Round trips beside idle objects".to_owned(), trips));
        Ok(())
    }

    /// Goals 7 and 8, as far as they need none.
    fn host_goals(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let trips =
            progress.part("cards without machines (goals 7, 8)", || host::round_trips(effort, progress));
        let mut trips = self.noted(trips).unwrap_or_default();
        let alone = progress.part("everything in one process (goal 8)", || one_process::track(effort));
        trips.extend(self.noted(alone));
        if let Some(folder) = &self.request.peers {
            let peers = progress.part("UCX and libfabric", || Ok(host::peers(folder, effort, progress)));
            self.peers = peers.unwrap_or_default();
        }
        let ucx = self.peers.iter().find(|peer| peer.name == host::UCX).and_then(|peer| peer.round_trip_us);
        self.goals.extend(host::goals(&trips, ucx));
        self.tables.push(("Round trips on the host, with no machine".to_owned(), trips));
    }

    /// Goal 9.
    fn parts_goals(&mut self) {
        let (effort, progress) = (self.request.effort, self.progress);
        let parts = progress.part("the card's logic alone (goal 9)", || parts::measure(effort, progress));
        self.goals.extend(parts::goals(self.noted(parts).unwrap_or_default()));
    }

    /// A part that does not work leaves its goals unmeasured, and the others as they are.
    fn noted<T>(&self, result: anyhow::Result<T>) -> Option<T> {
        result.inspect_err(|error| self.progress.note(&format!("{error:#}"))).ok()
    }
}
