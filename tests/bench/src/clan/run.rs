//! All that is measured of CLAN cards.

use crate::clan::choice::{Topic, wanted};
use crate::clan::watched;
use crate::engine::run::Run;

/// Measures what is asked for.
pub(crate) fn measure(run: &mut Run<'_>) -> anyhow::Result<()> {
    let topics = wanted(&run.request.figures);
    let has = |topic| topics.contains(&topic);
    if has(Topic::Watched) {
        let effort = run.request.effort;
        let measured = run.progress.part("CLAN: what passes armed Tripwires", || watched::measure(effort))?;
        run.others.push(watched::table(&measured));
    }
    Ok(())
}
