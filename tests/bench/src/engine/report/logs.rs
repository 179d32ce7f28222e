//! The raw samples: a log of HdrHistograms for each quantity, one histogram per round, in
//! nanoseconds.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;

use super::Results;
use crate::engine::track::Track;

pub(super) fn write(results: &Results, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    clear(folder).with_context(|| format!("cannot clear {}", folder.display()))?;
    for track in results.tracks().filter(|track| track.samples().is_some()) {
        let file = folder.join(format!("{}.hlog", file_name(&track.name)));
        write_one(track, results, &file).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Removes the logs of an earlier run, which may have measured other quantities.
fn clear(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "hlog") {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn write_one(track: &Track, results: &Results, file: &Path) -> anyhow::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    let mut serializer = V2DeflateSerializer::new();
    let mut log = IntervalLogWriterBuilder::new()
        .add_comment(&track.name)
        .with_start_time(results.facts.start)
        .with_max_value_divisor(1000.0)
        .begin_log_with(&mut out, &mut serializer)?;
    let mut start = Duration::ZERO;
    for round in &track.rounds {
        let time = Duration::from_nanos(round.ns);
        log.write_histogram(&round.samples, start, time, None).map_err(|error| anyhow!("{error:?}"))?;
        start += time;
    }
    Ok(())
}

/// Returns a name without characters that are invalid in file names.
fn file_name(name: &str) -> String {
    let words = name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_logs_of_earlier_runs_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["earlier.hlog", "notes.txt"] {
            File::create(folder.path().join(name)).unwrap();
        }
        clear(folder.path()).unwrap();
        let left = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["notes.txt"]);
    }

    #[test]
    fn file_names_are_plain() {
        assert_eq!(file_name("card, 16-byte write: ../x"), "card-16-byte-write-x");
    }
}
