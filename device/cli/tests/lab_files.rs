//! `hamlyn lab` without machines: files that are checked, and labs that are found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use hamlyn_host::rundir::claim;
use serde_json::Value;
use tempfile::TempDir;

fn hamlyn(run: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hamlyn"));
    command.env("HAMLYN_RUN", run).args(arguments).output().unwrap()
}

fn run_directory() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn said(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn every_example_is_valid() {
    let run = run_directory();
    let files = fs::read_dir(docs().join("labs")).unwrap().map(|entry| entry.unwrap().path());
    let files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
    let mut words = vec!["lab", "check"];
    words.extend(files.iter().map(|file| file.to_str().unwrap()));
    let output = hamlyn(run.path(), &words);
    assert!(output.status.success(), "{}", said(&output.stderr));
    assert!(files.len() >= 4 && said(&output.stdout).lines().count() == files.len());
    let page = fs::read_to_string(docs().join("labs.md")).unwrap();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(page.contains(&format!("labs/{name}")), "docs/labs.md does not name {name}");
    }
}

#[test]
fn all_errors_of_a_file_are_printed() {
    let run = run_directory();
    let file = run.path().join("wrong.toml");
    fs::write(&file, "name = \"a\"\n[fabric]\nloss = 0.1\n[[machine]]\nmemory = \"1M\"\n").unwrap();
    let file = file.to_str().unwrap();
    for command in ["check", "up"] {
        let output = hamlyn(run.path(), &["lab", command, file]);
        assert_eq!(output.status.code(), Some(1));
        let lines: Vec<&str> = said(&output.stderr).lines().collect();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0] == "error: 2 mistakes found", "{lines:#?}");
        assert!(lines[1].starts_with(&format!("{file}:3: fabric.loss: unknown field `loss`")), "{lines:#?}");
        assert!(lines[2].contains(":5: machine.memory: 1 MiB is out of range (limits 128 and"), "{lines:#?}");
    }
    let missing = hamlyn(run.path(), &["lab", "check", "missing.toml"]);
    assert!(said(&missing.stderr).contains("cannot read missing.toml"), "{missing:?}");
}

#[test]
fn labs_are_told_apart_by_name() {
    let run = run_directory();
    let output = |words: &[&str]| hamlyn(run.path(), words);
    assert!(said(&output(&["lab", "down"]).stderr).contains("no lab is running"));
    let [first, second] = ["lab-first", "lab-second"].map(|name| run.path().join(name));
    fs::create_dir(&first).unwrap();
    fs::create_dir(&second).unwrap();
    let _claim = claim(&second).unwrap();
    let several = output(&["lab", "down"]);
    assert!(said(&several.stderr).contains("first, second"), "{several:?}");
    // A lab that was killed leaves its directory.
    let removed = output(&["lab", "down", "first"]);
    assert!(removed.status.success() && !first.exists(), "{removed:?}");
    let starting = output(&["lab", "down", "second"]);
    assert!(said(&starting.stderr).contains("the lab may be starting or ending"), "{starting:?}");
    assert!(second.exists());
}

#[test]
fn logs_of_ended_lab_are_collected() {
    let run = run_directory();
    let ended = run.path().join("ended-pair");
    fs::create_dir(&ended).unwrap();
    fs::write(ended.join("vm0.log"), "said").unwrap();
    fs::write(ended.join("other"), "").unwrap();
    let [folder, archive] = ["logs", "logs.tar"].map(|name| run.path().join(name).display().to_string());
    for target in [&folder, &archive] {
        let output = hamlyn(run.path(), &["lab", "logs", "pair", "--archive", target]);
        assert!(
            output.status.success() && said(&output.stdout).starts_with("the logs of pair are in "),
            "{output:?}"
        );
    }
    assert_eq!(fs::read_to_string(Path::new(&folder).join("vm0.log")).unwrap(), "said");
    let listed = Command::new("tar").args(["-tf", &archive]).output().unwrap();
    assert_eq!(said(&listed.stdout), "pair/\npair/vm0.log\n");
    let again = hamlyn(run.path(), &["lab", "logs", "--archive", &folder]);
    assert!(said(&again.stderr).contains("cannot make the folder"), "{again:?}");
    let other = hamlyn(run.path(), &["lab", "logs", "other", "--archive", "x.tar"]);
    assert!(
        said(&other.stderr).contains("no lab of the name \"other\" has ended; the names are: pair"),
        "{other:?}"
    );
}

/// Returns the lines of a table with every key of a table of the file.
fn table(title: &str, schema: &Value) -> Vec<String> {
    let required =
        |key: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == key));
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let limits = |value: &Value| match (&value["enum"], &value["minimum"], &value["maximum"]) {
        (Value::Array(words), ..) => words.iter().map(text).collect::<Vec<_>>().join(", "),
        (_, least, Value::Number(most)) => format!("{least} to {most}"),
        _ => String::new(),
    };
    let kind = |value: &Value| match value["type"].as_str() {
        Some("array") => "list",
        Some("object") => "table",
        Some("integer") => "number",
        Some("boolean") => "true or false",
        Some(_) => "text",
        None if value["$ref"].is_string() => "table",
        None => "text or list",
    };
    let mut lines = vec![format!("### {title}"), String::new()];
    lines.push("| key | kind | default | limits | what |".into());
    lines.push("|---|---|---|---|---|".into());
    for (key, value) in schema["properties"].as_object().unwrap() {
        let default = match &value["default"] {
            _ if required(key) => "needed".to_owned(),
            Value::Null => String::new(),
            default => format!("`{}`", text(default)),
        };
        let what = text(&value["description"]);
        let cells = [format!("`{key}`"), kind(value).into(), default, limits(value), what];
        lines.push(format!("| {} |", cells.join(" | ")).replace("|  |", "| |").replace("|  |", "| |"));
    }
    lines.push(String::new());
    lines
}

#[test]
fn page_lists_keys_as_schema_does() {
    let run = run_directory();
    let output = hamlyn(run.path(), &["lab", "schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let inner = &schema["$defs"];
    let tables = [
        ("The file", &schema),
        ("[fabric]", &inner["Fabric"]),
        ("[[machine]]", &inner["Machine"]),
        ("[[machine.files]]", &inner["Copy"]),
        ("[[run]]", &inner["Run"]),
        ("[[expect]]", &inner["Expect"]),
    ];
    assert_eq!(inner.as_object().unwrap().len(), tables.len() - 1, "a table is new: list it here");
    let text = tables.iter().flat_map(|(title, schema)| table(title, schema)).collect::<Vec<_>>().join("\n");
    let page = fs::read_to_string(docs().join("labs.md")).unwrap();
    assert!(page.contains(text.trim_end()), "docs/labs.md must have these tables:\n\n{text}");
}

#[test]
fn schema_allows_no_unknown_keys() {
    let run = run_directory();
    let output = hamlyn(run.path(), &["lab", "schema"]);
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tables = [&schema].into_iter().chain(schema["$defs"].as_object().unwrap().values());
    for table in tables {
        assert_eq!(table["additionalProperties"], false, "{table}");
    }
    assert_eq!(schema["required"], serde_json::json!(["name", "machine"]));
}
