//! The dashboard for Grafana shows metrics that `hamlyn metrics` prints.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use hamlyn_host::catalogue::MODELS;
use serde_json::Value;
use tempfile::TempDir;

/// What Prometheus itself records of each target.
const OF_PROMETHEUS: &str = "up";

/// Words of the query language in the dashboard's queries.
const FUNCTIONS: [&str; 2] = ["rate", "label_values"];

fn dashboard() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/grafana/hamlyn.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Returns the texts under this key, anywhere in the dashboard.
fn texts<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if let Some(text) = member.as_str().filter(|_| name == key) {
                    found.push(text);
                }
                texts(member, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, key, found)),
        _ => {}
    }
}

/// Returns the names in a query that are not labels, intervals or functions.
fn metrics(query: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut depth = 0;
    for part in query.split_inclusive(['{', '}', '[', ']', '(', ')', ',', ' ']) {
        let (name, end) = part.split_at(part.len() - 1);
        let is_end = "{}[](), ".contains(end);
        let name = if is_end { name } else { part };
        let is_name =
            !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
        // The second argument of label_values is a label.
        let is_label = query.starts_with("label_values") && names.len() == 1;
        if depth == 0 && is_name && !is_label && !FUNCTIONS.contains(&name) {
            names.push(name);
        }
        match end {
            "{" | "[" => depth += 1,
            "}" | "]" => depth -= 1,
            _ => {}
        }
    }
    names
}

#[test]
fn queries_are_taken_apart() {
    let query = r#"rate(hamlyn_a_total{card=~"$card"}[$__rate_interval]) + hamlyn_b"#;
    assert_eq!(metrics(query), ["hamlyn_a_total", "hamlyn_b"]);
    assert_eq!(metrics(r#"up{job="hamlyn"}"#), ["up"]);
    assert_eq!(metrics("label_values(hamlyn_b, card)"), ["hamlyn_b"]);
}

/// A switch and a card for each model, in processes that end with this.
struct Fabrics {
    run: TempDir,
    processes: Vec<Child>,
}

impl Fabrics {
    fn start() -> Fabrics {
        let run = tempfile::tempdir().unwrap();
        fs::set_permissions(run.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let mut fabrics = Fabrics { run, processes: Vec::new() };
        for model in MODELS {
            let socket = fabrics.run.path().join(model.name);
            let mut command = fabrics.hamlyn(&["fabric", "--model", model.name, "--socket"]);
            command.arg(socket).stderr(Stdio::null());
            fabrics.processes.push(command.spawn().unwrap());
        }
        fabrics
    }

    fn hamlyn(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
        command.args(arguments).env("HAMLYN_RUN", self.run.path());
        command
    }

    /// Returns the names of all metrics, once all cards have some.
    fn metrics(&self) -> BTreeSet<String> {
        for _ in 0..2000 {
            let output = self.hamlyn(&["metrics", "--once"]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stdout).unwrap();
            if text.matches("hamlyn_card_enabled{").count() == MODELS.len() {
                let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
                return names.map(str::to_owned).collect();
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not every card has counters");
    }
}

impl Drop for Fabrics {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[test]
fn dashboard_shows_metrics_that_exist() {
    let (dashboard, mut queries) = (dashboard(), Vec::new());
    for key in ["expr", "definition"] {
        texts(&dashboard, key, &mut queries);
    }
    let named: BTreeSet<&str> = queries.iter().flat_map(|query| metrics(query)).collect();
    assert!(named.len() > 20 && named.contains(OF_PROMETHEUS), "{named:?}");
    let printed = Fabrics::start().metrics();
    for name in named {
        assert!(name == OF_PROMETHEUS || printed.contains(name), "{name} is not among {printed:?}");
    }
}

#[test]
fn panels_use_the_data_source_variable() {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables.iter().find(|variable| variable["type"] == "datasource").unwrap();
    assert_eq!((&source["name"], &source["query"]), (&"datasource".into(), &"prometheus".into()));
    let panels = dashboard["panels"].as_array().unwrap();
    let mut numbers: Vec<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        }
    }
}
