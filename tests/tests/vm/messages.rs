//! Messages between two and three machines.

use anyhow::{Context, Result};
use hamlyn_lab::{Lab, Run};

use crate::{shared, shared_three, text};

/// Runs a ping-pong of `count` round trips between two machines.
pub(crate) fn ping_pong(lab: &Lab, from: usize, to: usize, count: u32) -> Result<()> {
    let mut echo = lab.vm(to).run(["ping-pong", "serve"])?;
    let ticket = text(&echo.answer()?, "ticket");
    let count_text = count.to_string();
    let mut ping = lab.vm(from).run(["ping-pong", "run", "--ticket", &ticket, "--count", &count_text])?;
    echo.say(&text(&ping.answer()?, "ticket"))?;
    let result = ping.finish()?;
    assert_eq!(result.last().unwrap()["round_trips"], count);
    echo.close_stdin()?;
    echo.finish()?;
    Ok(())
}

/// Transfers `bytes` between two machines, gathered from several buffers, with every byte verified.
pub(crate) fn transfer(lab: &Lab, from: usize, to: usize, bytes: u32) -> Result<()> {
    transfer_how(lab, [from, to], bytes, &[])
}

fn transfer_how(lab: &Lab, [from, to]: [usize; 2], bytes: u32, how: &[&str]) -> Result<()> {
    let bytes = bytes.to_string();
    let receive = ["transfer", "receive", "--bytes", &bytes, "--seed", "7"];
    let mut receiver = lab.vm(to).run([&receive[..], how].concat())?;
    let ticket = text(&receiver.answer()?, "ticket");
    let send = ["transfer", "send", "--ticket", &ticket, "--bytes", &bytes, "--seed", "7", "--buffers", "4"];
    lab.vm(from).run([&send[..], how].concat())?.finish()?;
    let arrived = receiver.finish()?;
    assert_eq!(arrived.last().unwrap()["verified"], true);
    Ok(())
}

/// Returns how many huge pages a machine's kernel has given to programs.
fn huge_pages(lab: &Lab, vm: usize) -> Result<u64> {
    let counters = lab.vm(vm).read("/proc/vmstat")?;
    let given = counters.lines().find_map(|line| line.strip_prefix("thp_fault_alloc "));
    Ok(given.context("the kernel does not count huge pages")?.parse()?)
}

#[test]
fn large_areas_lie_in_huge_pages() -> Result<()> {
    let lab = shared();
    let counts = || Ok::<_, anyhow::Error>([huge_pages(&lab, 0)?, huge_pages(&lab, 1)?]);
    let before = counts()?;
    transfer(&lab, 0, 1, 1 << 20)?;
    assert_eq!(counts()?, before);
    transfer(&lab, 0, 1, 5 << 20)?;
    assert!(counts()?[1] > before[1]);
    Ok(())
}

#[test]
fn programs_transfer_from_and_into_own_memory() -> Result<()> {
    let lab = shared();
    // The memory neither begins nor ends at a page boundary.
    for bytes in [1000, 100_001, 3 << 20] {
        transfer_how(&lab, [0, 1], bytes, &["--own"])?;
    }
    // The `programming` tour covers this and every other feature of the library.
    let said = lab.vm(0).run(["programming"])?.finish_text()?;
    assert_eq!(said.last().map(String::as_str), Some("all examples have run"), "{said:?}");
    Ok(())
}

#[test]
fn two_machines_exchange_messages() -> Result<()> {
    let lab = shared();
    ping_pong(&lab, 0, 1, 1000)?;
    for (from, to) in [(0, 1), (1, 0)] {
        transfer(&lab, from, to, 1 << 20)?;
    }
    // A length that is not a multiple of anything, and two concurrent transfers through both cards.
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| transfer(&lab, 0, 1, 300_007));
        let other = scope.spawn(|| transfer(&lab, 1, 0, 300_007));
        (one.join(), other.join())
    });
    one.unwrap()?;
    other.unwrap()?;
    for card in 0..2 {
        assert_eq!(lab.refused(card)?, 0, "card {card}: {}", lab.card_counters(card)?);
    }
    Ok(())
}

#[test]
fn three_machines_all_to_all() -> Result<()> {
    let lab = shared_three();
    all_to_all(&lab, &[0, 1, 2])?;
    for card in 0..3 {
        assert_eq!(lab.refused(card)?, 0, "card {card}: {}", lab.card_counters(card)?);
    }
    Ok(())
}

/// Every machine sends verified messages to every other.
pub(crate) fn all_to_all(lab: &Lab, vms: &[usize]) -> Result<()> {
    let mut runs = Vec::new();
    let of = vms.len().to_string();
    for (index, vm) in vms.iter().enumerate() {
        let index = index.to_string();
        runs.push(lab.vm(*vm).run(["all-to-all", "--index", &index, "--of", &of, "--messages", "200"])?);
    }
    let answers = runs.iter_mut().map(Run::answer).collect::<Result<Vec<_>>>()?;
    for run in &mut runs {
        for answer in &answers {
            run.say(&text(answer, "ticket"))?;
        }
    }
    for run in &mut runs {
        let result = run.finish()?;
        assert_eq!(result.last().unwrap()["verified"], true, "{result:?}");
    }
    Ok(())
}
