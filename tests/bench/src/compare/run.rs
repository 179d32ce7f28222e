//! Runs all measurements of the four designs together: latencies between pinned machines, streams
//! between unpinned ones.

use crate::compare::designs::{DESIGNS, SIZES, figure, table};
use crate::engine::machines::{Layout, Machines};
use crate::engine::run::Run;
use crate::engine::track::interleave;

fn start(run: &Run<'_>, layout: Layout) -> anyhow::Result<Vec<Machines>> {
    DESIGNS.iter().map(|design| run.machines_of(design.model, layout, false)).collect()
}

pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let (effort, progress) = (run.request.effort, run.progress);
    let pinned = start(run, Layout::Pinned)?;
    let (many, few) = (effort.pick(2000, 10_000), effort.pick(400, 2000));
    let mut tracks = progress.part("the four designs: round trips", || {
        let all =
            DESIGNS.iter().zip(&pinned).flat_map(|(design, machines)| design.trips(machines, many, few));
        Ok(interleave(&all.collect::<Vec<_>>(), effort.rounds(), progress))
    })?;
    drop(pinned);
    let fabrics = start(run, Layout::Fabric)?;
    tracks.extend(progress.part("the four designs: streams", || {
        let bytes = effort.pick(8 << 20, 32 << 20);
        let all = SIZES.into_iter().flat_map(|size| {
            DESIGNS.iter().zip(&fabrics).map(move |(design, machines)| design.stream(machines, size, bytes))
        });
        Ok(interleave(&all.collect::<Vec<_>>(), effort.figure_rounds(), progress))
    })?);
    run.others.push(table(&tracks));
    run.plots.push(figure(&tracks));
    run.tables.push(("The four designs".to_owned(), tracks));
    Ok(())
}
