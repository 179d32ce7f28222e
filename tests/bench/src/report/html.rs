//! The page: one file that needs no other.

use std::fmt::Write;

use super::{Results, Table};
use crate::goals::{Goal, Verdict, number};
use crate::host::Peer;
use crate::plot::{Figure, escape, svg};
use crate::track::Track;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:1180px;margin:2em auto;padding:0 1em;color:#222}\
h1{font-size:1.6em}h2{font-size:1.25em;margin-top:2em;border-bottom:1px solid #ddd}\
table{border-collapse:collapse;font-size:.88em;margin:.8em 0;font-variant-numeric:tabular-nums}\
td,th{padding:.25em .7em;border-bottom:1px solid #e6e6e6;text-align:left}td.n,th.n{text-align:right}\
.met{color:#0f7b6c;font-weight:600}.short{color:#c0392b;font-weight:600}.noise{color:#8a6d00;font-weight:600}\
figure{margin:1em 0}svg{width:100%;max-width:860px;height:auto}\
pre{background:#f6f6f6;padding:.6em;overflow:auto;font-size:.8em}figcaption,.note{color:#666;font-size:.88em}";

/// Rows of a table that is shown only to who asks for it.
const LONG: usize = 20;

/// The whole page.
pub(super) fn page(results: &Results) -> anyhow::Result<String> {
    let mut out = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Hamlyn benchmark</title>\
         <style>{STYLE}</style><h1>Hamlyn benchmark</h1>"
    );
    facts(&mut out, results);
    goals(&mut out, &results.goals);
    for figure in &results.figures {
        draw(&mut out, figure)?;
    }
    for (title, tracks) in results.tables.iter().filter(|table| !table.1.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write!(out, "<h2>{}</h2>", escape(title));
        let long = tracks.len() > LONG;
        if long {
            let _ = write!(out, "<details><summary>{} quantities</summary>", tracks.len());
        }
        latencies(&mut out, tracks);
        rates(&mut out, tracks);
        if long {
            out.push_str("</details>");
        }
        commands(&mut out, tracks);
    }
    results.others.iter().for_each(|table| other(&mut out, table));
    peers(&mut out, &results.peers);
    out.push_str("</html>\n");
    Ok(out)
}

fn facts(out: &mut String, results: &Results) {
    out.push_str("<table>");
    for (name, value) in &results.facts.rows {
        let _ = write!(out, "<tr><th>{}<td>{}", escape(name), escape(value));
    }
    out.push_str(
        "</table><p class=\"note\">Card and peers take turns in rounds, so drift hits all of them alike. ",
    );
    out.push_str("A median is the median of the rounds' medians; percentiles are over all samples. ");
    out.push_str("The same as data: results.json, results.csv, figures.csv; every sample: samples/*.hlog ");
    out.push_str("(HdrHistogram logs, in ns).</p>");
}

fn goals(out: &mut String, goals: &[Goal]) {
    if goals.is_empty() {
        return;
    }
    out.push_str("<h2>Figures to reach</h2><table><tr><th>goal<th>what<th class=n>figure<th>beside");
    out.push_str("<th class=n>ratio<th class=n>spread<th>asked for<th>");
    for goal in goals {
        let class = match goal.verdict() {
            Verdict::Met => "met",
            Verdict::WithinNoise => "noise",
            Verdict::Short | Verdict::NotMeasured => "short",
        };
        let _ = write!(
            out,
            "<tr><td>{}<td>{}<td class=n>{}<td>{}<td class=n>{}<td class=n>{}<td>{}<td class={class}>{}",
            goal.number,
            escape(&goal.what),
            escape(&goal.value_text()),
            escape(&goal.peer_text()),
            goal.ratio_text(),
            goal.spread_text(),
            escape(&goal.need_text()),
            goal.verdict().text()
        );
    }
    out.push_str("</table><p class=\"note\">Figure and peer are measured turn by turn, in rounds. The ratio is the median of \
        the rounds' ratios; the spread is where that median lies at nine times in ten (of fewer than five rounds: all of \
        them; where nothing is beside the figure: of the figure itself). A goal is met or short if all of the spread is, \
        else this run cannot tell.</p>");
}

fn draw(out: &mut String, figure: &Figure) -> anyhow::Result<()> {
    let _ = write!(
        out,
        "<h2 id=\"{}\">{}</h2><figure>{}<figcaption>It answers the paper's {}. {}</figcaption></figure>",
        escape(&figure.key),
        escape(&figure.title),
        svg(figure)?,
        escape(&figure.answers),
        escape(&figure.paper)
    );
    Ok(())
}

fn latencies(out: &mut String, tracks: &[Track]) {
    let rows: Vec<_> = tracks.iter().filter_map(|track| Some((track, track.latency()?))).collect();
    if rows.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>round trips, us<th class=n>samples");
    for head in [
        "min",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "rounds' p50",
        "CPU near",
        "CPU far",
        "CPU cards",
        "CPU machines",
    ] {
        let _ = write!(out, "<th class=n>{head}");
    }
    out.push_str("<th class=n>doorbells<th class=n>interrupts");
    for (track, latency) in rows {
        let _ = write!(out, "<tr><td>{}<td class=n>{}", escape(&track.name), latency.count);
        for value in [latency.min, latency.p50, latency.p90, latency.p99, latency.p999, latency.max] {
            let _ = write!(out, "<td class=n>{}", number(value));
        }
        let medians = track.medians_us();
        let low = medians.iter().copied().fold(f64::INFINITY, f64::min);
        let high = medians.iter().copied().fold(0.0, f64::max);
        let _ = write!(out, "<td class=n>{} to {}", number(low), number(high));
        let optional = |value: Option<f64>| value.map_or_else(String::new, number);
        let cpu = track.cpu_us();
        let (near, far) = (cpu.map(|cpu| cpu[0]), cpu.map(|cpu| cpu[1]));
        let (services, machines) = match track.watched_us() {
            Some([services, machines]) => (Some(services), Some(machines)),
            None => (None, None),
        };
        for value in
            [near, far, services, machines, track.counted(0, "doorbells"), track.counted(0, "interrupts")]
        {
            let _ = write!(out, "<td class=n>{}", optional(value));
        }
    }
    out.push_str(
        "</table><p class=\"note\">CPU (us), doorbells (trapped stores) and interrupts are for each round trip; ",
    );
    out.push_str("doorbells and interrupts those of the near end. CPU near and far: the two programs. CPU cards: cards ");
    out.push_str("and switch. CPU machines: both emulators, the programs in them included.</p>");
}

fn rates(out: &mut String, tracks: &[Track]) {
    let rows: Vec<_> = tracks.iter().filter_map(|track| Some((track, track.rate()?))).collect();
    if rows.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>one way<th class=n>MB/s<th class=n>CPU near, us<th class=n>CPU far, us");
    out.push_str("<th class=n>CPU cards, us<th class=n>CPU machines, us");
    for (track, rate) in rows {
        let cpu = track.cpu_us().unwrap_or_default().map(number);
        let rate = number(rate / 1e6);
        let name = escape(&track.name);
        let _ = write!(out, "<tr><td>{name}<td class=n>{rate}<td class=n>{}<td class=n>{}", cpu[0], cpu[1]);
        if let Some([services, machines]) = track.watched_us() {
            let _ = write!(out, "<td class=n>{}<td class=n>{}", number(services), number(machines));
        }
    }
    out.push_str("</table>");
}

fn other(out: &mut String, table: &Table) {
    let _ = write!(out, "<h2>{}</h2><table><tr>", escape(&table.title));
    table.head.iter().for_each(|cell| {
        let _ = write!(out, "<th>{}", escape(cell));
    });
    for row in &table.rows {
        out.push_str("<tr>");
        row.iter().for_each(|cell| {
            let _ = write!(out, "<td>{}", escape(cell));
        });
    }
    let _ = write!(out, "</table><p class=\"note\">{}</p>", escape(&table.note));
}

fn peers(out: &mut String, peers: &[Peer]) {
    if peers.is_empty() {
        return;
    }
    out.push_str("<h2>Other libraries on the host</h2><table><tr><th><th class=n>round trip, us<th>commands");
    for peer in peers {
        let time = peer.round_trip_us().map_or_else(|| "not measured".to_owned(), number);
        let commands = escape(&peer.commands.join("\n")).replace('\n', "<br>");
        let _ = write!(out, "<tr><td>{}<td class=n>{time}<td><code>{commands}</code>", escape(peer.name));
    }
    out.push_str("</table>");
}

fn commands(out: &mut String, tracks: &[Track]) {
    out.push_str("<details><summary>commands</summary><pre>");
    for track in tracks {
        let _ = writeln!(out, "# {}\n{}", escape(&track.name), escape(&track.commands.join("\n")));
        if let Some(failure) = &track.failure {
            let _ = writeln!(out, "# failed: {}", escape(failure));
        }
    }
    out.push_str("</pre></details>");
}
