//! The guest's tools without a machine: programs of the host that attach directly to a card's
//! socket. In machines: `vm/tools.rs`.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use hamlyn::Statistic;
use hamlyn_lab::{Kit, Lab};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn tools() -> Result<PathBuf> {
    Kit::find()?.program("hamlyn-tools")
}

/// A tool at a card, which is killed when it is dropped.
struct Tool {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Tool {
    fn start(lab: &Lab, card: usize, arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(tools()?)
            .args(arguments)
            .env("HAMLYN_CARD", format!("vfio-user:{}", lab.card_socket(card)?.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, stdout })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.stdout.read_line(&mut line)? != 0, "the tool said no more");
        Ok(line.trim_end().to_owned())
    }

    /// Returns its exit status, the rest of its output, and its errors.
    fn end(mut self) -> Result<(Option<i32>, Vec<String>, String)> {
        let lines = self.stdout.by_ref().lines().collect::<Result<_, _>>()?;
        let mut errors = String::new();
        self.child.stderr.take().context("no standard error")?.read_to_string(&mut errors)?;
        Ok((self.child.wait()?.code(), lines, errors))
    }

    fn finish(self) -> Result<Vec<String>> {
        let (status, lines, errors) = self.end()?;
        ensure!(status == Some(0), "{status:?}: {errors}");
        Ok(lines)
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        // The tool may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lab() -> Result<Lab> {
    Lab::builder().vms(0).spare_cards(2).start()
}

/// Starts the server of a tool at card 1, which is host 1.
fn server(lab: &Lab, tool: &str) -> Result<Tool> {
    let mut server = Tool::start(lab, 1, &[tool])?;
    let line = server.line()?;
    ensure!(line == format!("listening on host 1 as {tool}"), "{line}");
    Ok(server)
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn counter_names_match_in_library_and_tools() -> Result<()> {
    let lab = lab()?;
    let mut wanted: Vec<&str> = Statistic::ALL.into_iter().map(Statistic::name).collect();
    wanted.sort_unstable();
    let info = Tool::start(&lab, 0, &["hamlyn-info", "--json"])?;
    // The environment names one card, so the tool does not look for this machine's cards.
    let info: Value = serde_json::from_str(&info.finish()?[0])?;
    let stat = lab.card_counters(0)?;
    for counters in [&info["counters"], &stat["card"]] {
        let names: Vec<&str> =
            counters.as_object().context(counters.to_string())?.keys().map(String::as_str).collect();
        assert_eq!(names, wanted);
    }
    Ok(())
}

#[test]
fn info_shows_limits_and_no_driver() -> Result<()> {
    let lab = lab()?;
    let lines = Tool::start(&lab, 0, &["hamlyn-info"])?.finish()?;
    assert!(lines[0].starts_with("card:\tvfio-user:"), "{lines:?}");
    let shown: Vec<Vec<&str>> = lines[1..].iter().map(|line| words(line)).collect();
    for wanted in
        [["link:", "up"], ["ports:", "64"], ["driver_version:", "none"], ["max_queue_entries:", "65536"]]
    {
        assert!(shown.iter().any(|line| line[..] == wanted), "{wanted:?}: {lines:?}");
    }
    // The tool itself is the only program.
    let sought = Tool::start(&lab, 0, &["hamlyn-info", "--find", "weather", "--json"])?;
    let sought: Value = serde_json::from_str(&sought.finish()?[0])?;
    assert_eq!((&sought["name"], &sought["hosts"]), (&"weather".into(), &json!([])), "{sought}");
    assert_eq!(sought["silent"].as_array().map(Vec::len), Some(63), "{sought}");
    let lines = Tool::start(&lab, 0, &["hamlyn-info", "--find", "weather"])?.finish()?;
    assert!(words(&lines[2]) == ["hosts:", "none"] && words(&lines[4]) == ["silent:", "63"], "{lines:?}");
    let nowhere = Tool::start(&lab, 0, &["hamlyn-info", "-d", "/dev/hamlyn99"])?;
    let (status, lines, errors) = nowhere.end()?;
    assert!((status, lines.len()) == (Some(1), 0) && errors.contains("/dev/hamlyn99"), "{errors}");
    Ok(())
}

#[test]
fn ping_runs_until_interrupt_and_prints_summary() -> Result<()> {
    let lab = lab()?;
    let server = server(&lab, "hamlyn-ping")?;
    let mut ping = Tool::start(&lab, 0, &["hamlyn-ping", "1", "-i", "0.01"])?;
    for number in 0..10 {
        let line = ping.line()?;
        ensure!(line.contains(&format!("seq={number} time=")), "{line}");
    }
    kill_process(Pid::from_child(&ping.child), Signal::INT)?;
    let lines = ping.finish()?;
    let [.., summary, times] = &lines[..] else { panic!("no summary: {lines:?}") };
    assert!(
        summary.ends_with("answered, 0% lost") && times.starts_with("rtt min/avg/max/mdev = "),
        "{lines:?}"
    );
    // The same while no answers arrive.
    let stopped = Pid::from_child(&server.child);
    let mut ping = Tool::start(&lab, 0, &["hamlyn-ping", "1", "-i", "0.01", "-W", "600"])?;
    ping.line()?;
    kill_process(stopped, Signal::STOP)?;
    kill_process(Pid::from_child(&ping.child), Signal::INT)?;
    let (_, lines, errors) = ping.end()?;
    kill_process(stopped, Signal::CONT)?;
    assert!(lines.iter().any(|line| line.starts_with("--- host 1: ")), "{lines:?} {errors}");
    Ok(())
}

#[test]
fn closed_output_ends_a_tool_silently() -> Result<()> {
    let lab = lab()?;
    let _server = server(&lab, "hamlyn-ping")?;
    let mut ping = Tool::start(&lab, 0, &["hamlyn-ping", "1", "-i", "0.01"])?;
    ping.line()?;
    // Closes the output, as "| head -1" does.
    let (reader, _writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    ping.stdout = BufReader::new(std::process::ChildStdout::from(reader));
    let mut errors = String::new();
    ping.child.stderr.take().context("no standard error")?.read_to_string(&mut errors)?;
    assert_eq!((ping.child.wait()?.code(), errors.as_str()), (Some(141), ""));
    Ok(())
}

#[test]
fn short_options_match_perftest() -> Result<()> {
    let lab = lab()?;
    let _server = server(&lab, "hamlyn-perf")?;
    let perf = |arguments: &[&str]| -> Result<Vec<String>> {
        Tool::start(&lab, 0, &[&["hamlyn-perf", "1", "-F"][..], arguments].concat())?.finish()
    };
    let lines = perf(&["-s", "64", "-n", "100"])?;
    assert_eq!(words(&lines[1])[..2], ["64", "100"]);
    // One way, and in both directions; the same number of messages for each pair.
    for (more, pairs) in [(&[][..], 1), (&["-b"], 1), (&["-q", "3"], 3), (&["-b", "-q", "3", "-t", "16"], 3)]
    {
        let wanted = [&["--bw", "-n", "333", "-s", "5000", "--report_gbits"], more].concat();
        let lines = perf(&wanted)?;
        assert!(lines[0].contains("BW average[Gb/sec]"), "{lines:?}");
        assert_eq!(words(&lines[1])[..2], ["5000", &(333 * pairs).to_string()], "{more:?}");
    }
    let lines = perf(&["--bw", "-b", "-D", "0.2", "-N"])?;
    assert!(lines[0].contains("BW peak[MB/sec]") && words(&lines[1])[2] == "0.00", "{lines:?}");
    let lines = perf(&["--bw", "-a", "-n", "20"])?;
    assert_eq!(lines.len(), 23);
    Ok(())
}

#[test]
fn perf_refuses_unsupported_options() -> Result<()> {
    let lab = lab()?;
    let _server = server(&lab, "hamlyn-perf")?;
    for (arguments, status, reason) in [
        (&["-b"][..], 2, "--bw"),
        (&["--bw", "-t", "15"], 2, "15 is not in 16..=64"),
        (&["--bw", "-l", "8"], 2, "'-l'"),
        (&["--bw", "-q", "65"], 2, "65 is not in 1..=64"),
        (&["-s", "8384513"], 1, "message size 8384513 is out of range (limit 8384512)"),
    ] {
        let perf = Tool::start(&lab, 0, &[&["hamlyn-perf", "1"], arguments].concat())?;
        let (ended, _, errors) = perf.end()?;
        assert!(ended == Some(status) && errors.contains(reason), "{arguments:?}: {ended:?} {errors}");
        // No advice to take a refused letter for the peer's name.
        assert!(!errors.contains("to pass"), "{errors}");
    }
    Ok(())
}
