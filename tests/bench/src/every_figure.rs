//! Renders every figure of every benchmark from made-up measurements, without machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::engine::benchmark::Benchmark;
use crate::engine::effort::Effort;
use crate::engine::goals::Verdict;
use crate::engine::plan::Planned;
use crate::engine::progress::Progress;
use crate::engine::report::{Facts, Results};
use crate::engine::run::{Request, Run};
use crate::engine::track::Track;
use crate::{clan, compare, dart, express, hamlyn, shrimp};

const ALL: [Benchmark; 6] = [
    hamlyn::BENCHMARK,
    shrimp::BENCHMARK,
    clan::BENCHMARK,
    dart::BENCHMARK,
    express::BENCHMARK,
    compare::BENCHMARK,
];

/// Returns what a run shows if each exchange measures the same.
fn results(benchmark: &Benchmark, effort: Effort) -> Results {
    let (request, progress) = (Request::made_up(false, &[]), Progress::new());
    let mut run = Run::new(&request, &progress);
    let mut headings = BTreeMap::new();
    for experiment in benchmark.experiments {
        let tracks: Vec<Track> = (experiment.plan)(effort).iter().map(Planned::made_up).collect();
        let goals = (experiment.goals)(&tracks);
        assert!(goals.is_empty() || experiment.has_goal, "{}", experiment.name);
        run.goals.extend(goals);
        let (_, all) = headings.entry(experiment.heading).or_insert_with(|| (experiment, Vec::new()));
        all.extend(tracks);
    }
    for (experiment, tracks) in headings.into_values().filter(|(_, tracks)| !tracks.is_empty()) {
        experiment.show(&mut run, tracks);
    }
    run.results(Facts { start: SystemTime::UNIX_EPOCH, rows: Vec::new() })
}

#[test]
fn every_figure_is_complete_in_every_format() {
    for (benchmark, effort) in
        ALL.iter().flat_map(|one| [Effort::Quick, Effort::Full].map(|effort| (one, effort)))
    {
        let results = results(benchmark, effort);
        for table in &results.others {
            let has_text = |column: usize| table.rows.iter().any(|row| !row[column].is_empty());
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{table:?}");
            assert!((0..table.head.len()).all(has_text), "a column is empty: {table:?}");
            assert!(!table.rows.iter().flatten().any(|cell| cell == "?"), "not measured: {table:?}");
        }
        for figure in &results.figures {
            assert!(figure.curves.iter().any(|curve| !curve.paper), "{figure:?}");
            assert!(figure.curves.iter().all(|curve| !curve.points.is_empty()), "{figure:?}");
        }
        let missing = results.goals.iter().find(|goal| goal.verdict() == Verdict::NotMeasured);
        assert!(missing.is_none(), "{missing:?}");
        let folder = tempfile::tempdir().unwrap();
        results.write(folder.path()).unwrap();
        let records = |name: &str| {
            let mut reader = csv::Reader::from_path(folder.path().join(name)).unwrap();
            reader.records().collect::<Result<Vec<_>, _>>().unwrap()
        };
        let tracks: Vec<&Track> = results.tables.iter().flat_map(|(_, tracks)| tracks).collect();
        let names: BTreeSet<&str> = tracks.iter().map(|track| &track.name[..]).collect();
        assert_eq!((records("results.csv").len(), names.len()), (tracks.len(), tracks.len()));
        let points = results.figures.iter().flat_map(|figure| &figure.curves).map(|curve| curve.points.len());
        assert_eq!(records("figures.csv").len(), points.sum::<usize>());
    }
}

#[test]
fn goals_need_these_figures() {
    let needed = ALL.map(|benchmark| {
        let mut names: Vec<&str> =
            benchmark.experiments.iter().filter(|one| one.has_goal).map(|one| one.name).collect();
        names.dedup();
        names
    });
    let expected: [&[&str]; 6] = [
        &["machines", "scale", "host", "parts"],
        &["flags"],
        &["words", "server", "watched"],
        &["deposits", "questions", "filtering"],
        &["trips", "streams", "idle"],
        &[],
    ];
    assert_eq!(needed, expected);
}

#[test]
fn bandwidth_is_measured_up_to_a_mebibyte() {
    let streams = [(shrimp::BENCHMARK, "updates", 4), (clan::BENCHMARK, "raw", 16)];
    let streams =
        streams.into_iter().chain([(clan::BENCHMARK, "transfers", 4), (dart::BENCHMARK, "blocks", 32)]);
    for (benchmark, name, least) in streams {
        let experiment = benchmark.experiments.iter().find(|one| one.name == name).unwrap();
        for effort in [Effort::Quick, Effort::Full] {
            let plan = (experiment.plan)(effort);
            assert_eq!((plan[0].x, plan[plan.len() - 1].x), (least, 1 << 20), "{name}");
        }
    }
}

#[test]
fn names_of_figures_are_those_of_experiments() {
    for benchmark in &ALL {
        let named: BTreeSet<&str> = benchmark.names.iter().copied().collect();
        let all = benchmark.experiments.iter().map(|experiment| experiment.name);
        assert_eq!(named, all.filter(|name| !name.is_empty()).collect());
        assert!(benchmark.names.iter().all(|name| benchmark.check(name).is_ok()));
        let message = benchmark.check("no figure").unwrap_err();
        assert!(message.ends_with(&format!("(there are {})", benchmark.names.join(", "))), "{message}");
    }
}
