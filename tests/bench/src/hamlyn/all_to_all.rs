//! Every process sends to every other at the same time: the capacity of one fabric process.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use hamlyn_lab::Lab;

use crate::engine::effort::Effort;
use crate::engine::experiment::Experiment;
use crate::engine::plot::{Curve, Figure, Point, Scale};
use crate::engine::progress::Progress;
use crate::engine::site::HostProgram;
use crate::engine::stats::median;

pub(crate) const ALL_TO_ALL: Experiment = Experiment {
    name: "all-to-all",
    also: |run, _, _| {
        let (effort, progress) = (run.request.effort, run.progress);
        let all = progress.part("all-to-all", || measure(effort, progress));
        run.plots.extend(run.noted(all).map(|all| figure(&all)));
        Ok(())
    },
    ..Experiment::NEW
};

/// Bytes of a message: a small one, and the maximum for direct I/O.
const SIZES: [u32; 2] = [16, 448];

/// Messages a second, of all processes together, by message size and number of cards.
#[derive(Debug)]
struct AllToAll {
    curves: Vec<(u32, Vec<(usize, f64)>)>,
}

/// Measures with an increasing number of cards. Each card has one process of the host.
fn measure(effort: Effort, progress: &Progress) -> anyhow::Result<AllToAll> {
    let mut curves: Vec<_> = SIZES.map(|size| (size, Vec::new())).to_vec();
    for cards in effort.pick(vec![2, 4, 8], vec![2, 4, 8, 16, 32]) {
        let lab = Lab::builder().vms(0).spare_cards(cards).one_process(true).start()?;
        for (size, points) in &mut curves {
            // The total number of messages is the same for any number of senders.
            let each = effort.pick(8000, 200_000) / (cards * (cards - 1));
            progress.step(&format!("{cards} cards, messages of {size} bytes"));
            let rounds = (0..effort.pick(3, 7)).map(|_| round(&lab, cards, *size, each));
            if let Some(rate) = median(rounds.collect::<anyhow::Result<_>>()?) {
                points.push((cards, rate));
            }
        }
    }
    Ok(AllToAll { curves })
}

/// Returns messages a second, without acknowledgements. Every byte is checked by its receiver.
fn round(lab: &Lab, cards: usize, size: u32, each: usize) -> anyhow::Result<f64> {
    let program = program()?;
    let start = |index: usize| {
        let words = format!("--index {index} --of {cards} --messages {each} --size {size}");
        let words = crate::engine::exchange::words(&words);
        HostProgram::start(&program, &words, Some(lab.card_socket(index)?))
    };
    let mut programs = (0..cards).map(start).collect::<anyhow::Result<Vec<_>>>()?;
    let ticket = |program: &mut HostProgram| {
        let said = program.answer()?;
        said["ticket"].as_str().map(str::to_owned).with_context(|| format!("{said} has no ticket"))
    };
    let tickets = programs.iter_mut().map(ticket).collect::<anyhow::Result<Vec<_>>>()?.join("\n");
    let start = Instant::now();
    programs.iter_mut().try_for_each(|program| program.say(&tickets))?;
    for program in &mut programs {
        let said = program.finish()?;
        if said.as_ref().is_none_or(|said| said["verified"] != true) {
            bail!("a process of all-to-all said {said:?}");
        }
    }
    Ok((cards * (cards - 1) * each) as f64 / start.elapsed().as_secs_f64())
}

/// Returns the path of the library's example with this name, which is built next to this program.
fn program() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("cannot find this program")?;
    Ok(this.with_file_name("examples").join("all-to-all"))
}

/// Draws the plot.
fn figure(all: &AllToAll) -> Figure {
    let curve = |(size, points): &(u32, Vec<(usize, f64)>)| {
        let points = points.iter().map(|(x, y)| Point { x: *x as f64, y: *y, high: None });
        Curve::ours(format!("messages of {size} bytes"), points.collect())
    };
    Figure {
        key: "all-to-all",
        title: "All-to-all: every process to every other",
        answers: "section 2.8",
        note: "The paper has no such figure: its network is of the kind that never drops a packet (section 2.8). \
            Programs of the host at the cards of one fabric process; each message is checked and acknowledged by \
            another, which is not counted."
            .to_owned(),
        x: ("cards", Scale::Linear),
        y: ("messages a second, together", Scale::Linear),
        curves: all.curves.iter().map(curve).collect(),
    }
}
