//! The report: a page to read, and machine-readable files.

mod data;
mod html;
mod logs;
mod machine;
mod table;

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::engine::foreign::Peer;
use crate::engine::goals::Goal;
use crate::engine::plot::Figure;
use crate::engine::track::Track;
pub use machine::Facts;
pub use table::Table;

/// All results of one run.
#[derive(Debug)]
pub struct Results {
    /// The environment and the command.
    pub facts: Facts,
    /// The target figures.
    pub goals: Vec<Goal>,
    /// The plots.
    pub figures: Vec<Figure>,
    /// Third-party programs on the host.
    pub peers: Vec<Peer>,
    /// The quantities for the tables.
    pub tables: Vec<(String, Vec<Track>)>,
    /// Everything else.
    pub others: Vec<Table>,
}

impl Results {
    /// Returns every track.
    fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.tables.iter().flat_map(|table| &table.1)
    }

    /// Returns the tracks that failed.
    pub fn failures(&self) -> Vec<&Track> {
        self.tracks().filter(|track| track.failure.is_some()).collect()
    }

    /// Returns all results that are neither goals nor samples, for readers: tables, and the plots'
    /// points.
    pub fn tables_text(&self) -> String {
        data::tables_markdown(&self.others, &self.figures)
    }

    /// Writes page, JSON, CSV and logs into a folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let put = |name: &str, text: String| {
            let file = folder.join(name);
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
        };
        put("index.html", html::page(self)?)?;
        put("results.json", format!("{:#}\n", data::json(self)))?;
        put("results.csv", data::csv(self)?)?;
        put("goals.md", data::goals_markdown(&self.goals))?;
        put("tables.md", self.tables_text())?;
        put("figures.csv", data::figures_csv(&self.figures)?)?;
        logs::write(self, &folder.join("samples"))
    }
}
