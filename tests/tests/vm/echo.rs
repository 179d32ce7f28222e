//! The echo card in real machines: the same driver, bus and fabric, another model.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::Exit;

use crate::lies::driver_survives_lies;
use crate::tool::{Tools, said};
use crate::{Turn, eventually, shared_of};

fn counter(lab: &Turn, card: usize, name: &str) -> Result<u64> {
    lab.card_counters(card)?["card"][name].as_u64().with_context(|| format!("no counter {name}"))
}

#[test]
fn messages_of_all_lengths_are_echoed_back() -> Result<()> {
    let lab = shared_of("echo")?;
    let mut server = lab.vm(0).run(["echo-card", "serve", "--count", "1100"])?;
    let place = server.answer()?;
    let [host, mailbox] = ["host", "mailbox"].map(|word| place[word].to_string());
    let ask = |count| {
        ["echo-card", "ask", "--host", &host, "--mailbox", &mailbox, "--count", count].map(String::from)
    };
    // Two processes of one machine, each with its own mailbox.
    let (mut one, mut two) = (lab.vm(1).run(ask("1050"))?, lab.vm(1).run(ask("50"))?);
    for run in [&mut one, &mut two, &mut server] {
        ensure!(!run.finish()?.is_empty());
    }
    for card in [0, 1] {
        ensure!(counter(&lab, card, "messages_received")? == 1100 && counter(&lab, card, "inbox_full")? == 0);
    }
    // The objects of the ended processes are gone, and the card can allocate them again.
    let mut again = lab.vm(1).run([
        "echo-card",
        "ask",
        "--host",
        "0",
        "--mailbox",
        &mailbox,
        "--count",
        "1",
        "--timeout",
        "1",
    ])?;
    ensure!(again.finish().is_err(), "a closed mailbox takes nothing");
    // The packet may arrive after the program has given up.
    eventually(|| Ok(counter(&lab, 0, "no_mailbox")? > 0), "the packet is refused")?;
    ensure!(counter(&lab, 0, "no_mailbox")? == 1);
    Ok(())
}

#[test]
fn mailboxes_of_a_killed_owner_are_freed() -> Result<()> {
    let lab = shared_of("echo")?;
    for _ in 0..40 {
        // More than there are mailboxes.
        let mut owner = lab.vm(0).run(["echo-card", "serve"])?;
        owner.answer()?;
        owner.kill(9)?;
        owner.wait()?;
    }
    let text = lab.vm(0).run_as(0, ["cat", "/sys/class/echo/echo0/holders"])?.finish_text()?;
    ensure!(text == ["user mailboxes connections"], "{text:?}");
    // Only root reads the holders.
    let mut user = lab.vm(0).run(["cat", "/sys/class/echo/echo0/holders"])?;
    ensure!(
        user.wait()? == Exit::Code(1) && user.stderr().contains("Permission denied"),
        "{}",
        user.stderr()
    );
    // The first of 32 mailboxes is the driver's.
    let info = lab.vm(0).run(["hamlyn-info", "--json"])?.finish()?;
    ensure!(info.len() == 1 && info[0]["card"] == "/dev/echo0" && info[0]["mailboxes"] == 31, "{info:?}");
    Ok(())
}

const TOOLS: Tools = Tools {
    model: "echo",
    // No data, one record, two records, and the longest message.
    ping: &["16", "0", "1008", "1009", "249840"],
    longest: 249_840,
    latency: &[&["-s", "1000", "-n", "20"], &["-n", "5", "-e"], &["-s", "100000", "-n", "5"]],
    both_ways: "65536",
};

#[test]
fn tools_find_the_echo_card_by_themselves() -> Result<()> {
    let lab = shared_of("echo")?;
    TOOLS.info(&lab)?;
    TOOLS.ping(&lab)?;
    let server = TOOLS.perf(&lab)?;
    // The sizes end where the card's messages do.
    let rows = said(&lab, &["hamlyn-perf", "1", "-a", "-n", "2", "--json"])?;
    let sizes: Vec<u64> = rows.iter().filter_map(|row| row["bytes"].as_u64()).collect();
    ensure!(sizes == (1..=17).map(|power| 1 << power).collect::<Vec<_>>(), "{sizes:?}");
    drop(server);
    Ok(())
}

#[test]
fn the_driver_passes_its_tests() -> Result<()> {
    let lab = shared_of("echo")?;
    let said = lab.vm(0).run_as(0, ["echo-card", "self-test"])?.finish()?;
    ensure!(said.len() == 1 && said[0]["passed"] == true, "{said:?}");
    let refused = lab.vm(0).run(["echo-card", "self-test"])?.finish();
    ensure!(refused.is_err(), "an ordinary user may not");
    Ok(())
}

#[test]
fn driver_survives_an_echo_card_that_lies() -> Result<()> {
    let checks = ["echo-card serve --count 1", "echo-card ask --host 1 --mailbox 0 --count 1 --timeout 1"];
    // The card sends little to its driver, so it lies as often as possible.
    driver_survives_lies("echo", 1, &checks.repeat(2), &["hamlyn-info"])
}
