//! The guest's tools: `hamlyn-info`, `hamlyn-ping`, `hamlyn-perf`.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Exit, Lab, Run};
use serde_json::Value;

use crate::{shared, shared_reordering};

/// Starts the server side of a tool. Returns it and the host that clients need.
pub(crate) fn server(lab: &Lab, vm: usize, tool: &str) -> Result<(Run, String)> {
    let mut server = lab.vm(vm).run([tool, "--json"])?;
    let host = server.answer()?["host"].as_u64().context("no host")?;
    Ok((server, host.to_string()))
}

/// Returns the only line of a tool that succeeds.
fn one(lab: &Lab, vm: usize, arguments: &[&str]) -> Result<Value> {
    let mut said = lab.vm(vm).run(arguments.iter().copied())?.finish()?;
    ensure!(said.len() == 1, "{arguments:?}: {said:?}");
    Ok(said.remove(0))
}

fn number(answer: &Value, field: &str) -> f64 {
    answer[field].as_f64().unwrap_or_else(|| panic!("no number {field} in {answer}"))
}

#[test]
fn tools_report_card_details_latency_and_bandwidth() -> Result<()> {
    let lab = shared();
    info(&lab)?;
    ping(&lab)?;
    latency(&lab)?;
    bandwidth(&lab)?;
    for card in 0..2 {
        // An operating system resends a message that is not acknowledged in time. The card refuses
        // the copy if the first one has not been processed yet. The last word of a channel's end
        // may find that the peer has closed its slot, or that the slot has a new owner and key.
        // All counters are of one moment, as such words may come late.
        let counters = lab.card_counters(card)?;
        let counted = counters["card"].as_object().context("counters of a card")?;
        let harmless = ["refused_one_shot", "refused_closed_slot", "refused_key"];
        for (name, count) in counted.iter().filter(|(name, _)| name.starts_with("refused_")) {
            assert!(harmless.contains(&name.as_str()) || *count == 0, "card {card}: {name}: {counters}");
        }
    }
    Ok(())
}

fn info(lab: &Lab) -> Result<()> {
    let mut hosts = Vec::new();
    for vm in 0..2 {
        let info = one(lab, vm, &["hamlyn-info", "--json"])?;
        assert_eq!(info["card"], "/dev/hamlyn0");
        assert_eq!(info["driver_version"], env!("CARGO_PKG_VERSION"), "{info}");
        assert!(info["pci_address"].as_str().is_some_and(|address| address.starts_with("0000:")), "{info}");
        assert!(info["uapi_version"].is_string(), "{info}");
        assert!(number(&info, "slots") > 1.0 && info["counters"]["commands"].is_u64(), "{info}");
        assert_eq!(info["ports"], 64, "{info}");
        hosts.push(info["host"].as_u64().context("no host")?);
    }
    assert_ne!(hosts[0], hosts[1]);
    let lines = lab.vm(0).run(["hamlyn-info", "-v"])?.finish_text()?;
    assert_eq!(lines[0], "card:\t/dev/hamlyn0");
    for field in ["link:", "host:", "ports:", "packet_size:", "refused_key:"] {
        assert!(lines.iter().any(|line| line.trim_start().starts_with(field)), "{field}: {lines:?}");
    }
    let mut nowhere = lab.vm(0).run(["hamlyn-info", "--card", "/dev/hamlyn9"])?;
    assert_eq!(nowhere.wait()?, Exit::Code(1));
    assert!(nowhere.stderr().contains("/dev/hamlyn9"), "{}", nowhere.stderr());
    Ok(())
}

fn ping(lab: &Lab) -> Result<()> {
    let (_server, host) = server(lab, 1, "hamlyn-ping")?;
    // In one packet, in many, and without a byte.
    for size in ["16", "100000", "0"] {
        let ping = ["hamlyn-ping", &host, "-c", "20", "-i", "0", "-s", size, "--json"];
        let summary = one(lab, 0, &ping)?;
        assert_eq!((&summary["sent"], &summary["answered"]), (&20.into(), &20.into()), "{summary}");
        let rtt = &summary["rtt_ns"];
        assert!(0.0 < number(rtt, "min") && number(rtt, "min") <= number(rtt, "max"), "{summary}");
    }
    // Two clients at once, one of which prints for a person.
    let mut quiet = lab.vm(0).run(["hamlyn-ping", &host, "-c", "50", "-i", "0", "-q"])?;
    let mut other = lab.vm(0).run(["hamlyn-ping", &host, "-c", "3", "-i", "0.1"])?;
    let lines = other.finish_text()?;
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[0].starts_with(&format!("16 bytes from host {host}: seq=0 time=")), "{lines:?}");
    assert!(lines[3].ends_with("3 sent, 3 answered, 0% lost"), "{lines:?}");
    assert_eq!(quiet.finish_text()?.len(), 2);
    // A name without a listener, and a size above the limit.
    let mut absent = lab.vm(0).run(["hamlyn-ping", &host, "--name", "absent"])?;
    assert_eq!(absent.wait()?, Exit::Code(1));
    assert!(absent.stderr().contains("no listener has that name"), "{}", absent.stderr());
    let mut large = lab.vm(0).run(["hamlyn-ping", &host, "-s", "8384513"])?;
    assert_eq!(large.wait()?, Exit::Code(1));
    assert!(large.stderr().contains("(limit 8384512)"), "{}", large.stderr());
    Ok(())
}

fn latency(lab: &Lab) -> Result<()> {
    let (mut server, host) = server(lab, 1, "hamlyn-perf")?;
    let all = ["hamlyn-perf", &host, "-a", "-n", "10", "-e", "--json"];
    let rows = lab.vm(0).run(all)?.finish()?;
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["bytes"].as_u64()).collect();
    assert_eq!(sizes, (1..=22).map(|power| 1 << power).collect::<Vec<u64>>());
    for row in &rows {
        assert_eq!(row["iterations"], 10);
        let [min, typical, max] = ["t_min_us", "t_typical_us", "t_max_us"].map(|field| number(row, field));
        assert!(0.0 < min && min <= typical && typical <= max, "{row}");
    }
    let lines = lab.vm(0).run(["hamlyn-perf", &host, "-s", "64", "-n", "200"])?.finish_text()?;
    assert_eq!(lines.len(), 2, "{lines:?}");
    let columns = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] \
                   99% percentile[usec] 99.9% percentile[usec]";
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), columns);
    assert!(lines[1].starts_with("64 ") && lines[1].split_whitespace().count() == 9, "{lines:?}");
    // The next server uses the same name.
    server.kill(9)?;
    server.wait()?;
    Ok(())
}

fn bandwidth(lab: &Lab) -> Result<()> {
    let (_server, host) = server(lab, 1, "hamlyn-perf")?;
    for size in ["64", "4096", "100001"] {
        let row = one(lab, 0, &["hamlyn-perf", &host, "--bw", "-s", size, "-n", "333", "--json"])?;
        assert_eq!((row["bytes"].to_string().as_str(), &row["iterations"]), (size, &333.into()));
        assert!(number(&row, "bw_peak_mb_s") >= number(&row, "bw_average_mb_s"), "{row}");
        assert!(number(&row, "msg_rate_mpps") > 0.0, "{row}");
    }
    let lines = lab.vm(0).run(["hamlyn-perf", &host, "--bw", "-D", "0.5"])?.finish_text()?;
    let columns = "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]";
    assert_eq!(lines[0].split_whitespace().collect::<Vec<_>>().join(" "), columns);
    assert!(lines[1].starts_with("65536 "), "{lines:?}");
    let both = ["hamlyn-perf", &host, "--bw", "-b", "-q", "4", "-s", "4096", "-n", "100", "--json"];
    assert_eq!(one(lab, 0, &both)?["iterations"], 400);
    Ok(())
}

#[test]
fn tools_work_on_a_reordering_fabric() -> Result<()> {
    let lab = shared_reordering();
    let (mut answers, host) = server(&lab, 1, "hamlyn-ping")?;
    for size in ["10", "50000"] {
        let ping = one(&lab, 0, &["hamlyn-ping", &host, "-c", "20", "-i", "0", "-s", size, "--json"])?;
        assert_eq!(ping["answered"], 20, "{ping}");
    }
    let (mut counts, host) = server(&lab, 1, "hamlyn-perf")?;
    for size in ["10", "3000", "50000"] {
        let both = ["hamlyn-perf", &host, "--bw", "-b", "-n", "500", "-s", size, "--json"];
        assert_eq!(one(&lab, 0, &both)?["iterations"], 500);
    }
    for server in [&mut answers, &mut counts] {
        server.kill(9)?;
        server.wait()?;
    }
    // A server that is gone.
    let mut late = lab.vm(0).run(["hamlyn-ping", &host, "-W", "60"])?;
    assert_eq!(late.wait()?, Exit::Code(1));
    assert!(late.stderr().contains("no listener has that name"), "{}", late.stderr());
    Ok(())
}
