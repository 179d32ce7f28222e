//! Access to pages of express memory: by processes of a machine, by other users, and by a hostile
//! operating system.

use std::thread::{scope, sleep};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::Desk;
use crate::express::{channel, desk, express, log_is_clean, no_pages_are_held};
use crate::{eventually, if_long, lab_of};

/// Words of 8 bytes that pages are filled with.
const OURS: u64 = 0x6f75_7273_6f75_7273;
const THEIRS: u64 = 0x7468_6569_7273_7468;
const SAID: u64 = 0x7361_6964_7361_6964;
const SHARED: u64 = 0x7368_6172_6564_7368;
const HOSTILE: u64 = 0xbdbd_bdbd_bdbd_bdbd;

/// Creates an area of four pages at machine `from` for machine `to`. Returns its number, and the
/// words that `map` needs.
fn make(desk: &mut Desk<Run>, from: usize, to: usize) -> Result<(u64, String)> {
    let made = desk.ask(&format!("make {to} 16384"))?;
    let pages = made["pages"].as_u64().with_context(|| format!("no pages: {made}"))?;
    Ok((pages, format!("{from} {} {}", made["area"], made["key"])))
}

/// Maps an area. Returns the number of the mapped pages.
fn map(desk: &mut Desk<Run>, told: &str) -> Result<u64> {
    let mapped = desk.ask(&format!("map {told}"))?;
    mapped["pages"].as_u64().with_context(|| format!("no pages: {mapped}"))
}

fn fill(desk: &mut Desk<Run>, pages: u64, word: u64) -> Result<()> {
    desk.expect(&format!("fill {pages} {word}"), &json!({ "filled": 16384 }))
}

/// Checks that all words of the pages have this value.
fn all(desk: &mut Desk<Run>, pages: u64, word: u64) -> Result<()> {
    desk.expect(&format!("count {pages} {word}"), &json!({ "words": 2048, "of": 2048 }))
}

#[test]
fn pages_are_accessible_only_to_their_owners() -> Result<()> {
    let lab = lab_of(express(2));
    let (mut maker, mut viewer) = (desk(&lab, 0)?, desk(&lab, 1)?);
    let (area, told) = make(&mut maker, 0, 1)?;
    all(&mut maker, area, 0)?;
    let view = map(&mut viewer, &told)?;
    fill(&mut maker, area, OURS)?;
    all(&mut viewer, view, OURS)?;
    viewer.expect(&format!("add {view} 1"), &json!({ "was": OURS }))?;
    maker.expect(&format!("add {area} 1"), &json!({ "was": OURS + 1 }))?;
    both_add_to_the_same_word(&mut maker, area, &mut viewer, view)?;
    fill(&mut viewer, view, OURS)?;
    strangers_are_refused(&lab, &told)?;
    nonsense_ends_a_channel(&lab)?;
    processes_beside_them(&lab)?;
    all(&mut maker, area, OURS)?;
    all(&mut viewer, view, OURS)?;
    pages_are_cleared_between_owners(&lab)?;
    // Pages that were given back are no longer visible, at either end. The old mappings remain
    // readable.
    maker.expect(&format!("give {area}"), &json!({ "given": true }))?;
    eventually(|| Ok(viewer.ask(&format!("count {view} 0"))?["words"] == 2048), "the view is taken away")?;
    fill(&mut viewer, view, THEIRS)?;
    let (again, _) = make(&mut maker, 0, 1)?;
    all(&mut maker, again, 0)?;
    all(&mut viewer, view, THEIRS)?;
    drop((maker, viewer));
    for (vm, host) in [(0, 1), (1, 0)] {
        let mut look = desk(&lab, vm)?;
        eventually(|| no_pages_are_held(&mut look, host), "all pages are back")?;
        log_is_clean(&lab, vm)?;
    }
    Ok(())
}

/// A process connects correctly and then stores invalid values. The receiver gets an error that
/// names the invalid value, and the channel ends in both directions. The other end's connection
/// reports the reason.
fn nonsense_ends_a_channel(lab: &Lab) -> Result<()> {
    let (mut server, mut forger) = (desk(lab, 0)?, desk(lab, 1)?);
    server.expect("listen trap", &json!({ "listening": "trap" }))?;
    server.begin("accept")?;
    let pages = forger.ask("forge 0 trap")?["pages"].as_u64().context("nothing is mapped")?;
    let accepted = server.answer()?;
    ensure!(accepted["express"] == true, "{accepted}");
    let channel = &accepted["channel"];
    // The first word is the total number of bytes ever written.
    forger.expect(&format!("add {pages} 3"), &json!({ "was": 0 }))?;
    let said = "it says to have written 3 bytes of a ring";
    let told = server.ask(&format!("receive {channel}"))?;
    ensure!(told["error"].as_str().is_some_and(|error| error.contains(said)), "{told}");
    ensure!(server.ask(&format!("flood {channel}"))? == json!({ "flooding": true }));
    let told = server.answer()?;
    ensure!(told["error"].as_str().is_some_and(|error| error.contains(said)), "{told}");
    let why = json!({ "ended": "Closed", "said": "what you have stored makes no sense" });
    forger.expect("blamed", &why)
}

/// Both add at the same time with ordinary atomics, and no addition is lost.
fn both_add_to_the_same_word(
    maker: &mut Desk<Run>,
    area: u64,
    viewer: &mut Desk<Run>,
    view: u64,
) -> Result<()> {
    const TIMES: u64 = 2_000_000;
    fill(maker, area, 0)?;
    maker.begin(&format!("tally {area} {TIMES}"))?;
    viewer.expect(&format!("tally {view} {TIMES}"), &json!({ "tallied": TIMES }))?;
    ensure!(maker.answer()? == json!({ "tallied": TIMES }));
    viewer.expect(&format!("add {view} 0"), &json!({ "was": 2 * TIMES }))
}

/// Checks that a process with incomplete credentials, or the second to map an area, is refused.
fn strangers_are_refused(lab: &Lab, told: &str) -> Result<()> {
    let words: Vec<u64> = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let [host, area, key] = words[..] else { panic!("{told}") };
    for user in [1001, 1002, 0] {
        let mut stranger = Desk(lab.vm(1).run_as(user, ["express-desk"])?);
        stranger.fails(&format!("map {told}"), "busy")?;
        for bit in [0, 31, 32, 63] {
            stranger.fails(&format!("map {host} {area} {}", key ^ 1 << bit), "denied")?;
        }
        stranger.fails(&format!("map {host} {} {key}", area + 1), "denied")?;
        // There has never been a host 3, and host number 4 cannot exist.
        stranger.fails(&format!("map 4 {area} {key}"), "No route to host")?;
        // The area's own machine cannot map it as a peer.
        let mut inside = Desk(lab.vm(0).run_as(user, ["express-desk"])?);
        inside.fails(&format!("map {told}"), "No route to host")?;
        inside.fails(&format!("map 1 {area} {key}"), "denied")?;
    }
    Ok(())
}

/// Checks that each attempt by a process in the machine of the pages is refused with the right
/// error.
fn processes_beside_them(lab: &Lab) -> Result<()> {
    for (vm, other) in [(0, "1"), (1, "0")] {
        for user in [1001, 1002] {
            let tried = lab.vm(vm).run_as(user, ["express-neighbour", other])?.finish()?;
            let tried = tried.last().context("no answer")?;
            ensure!(tried["attempts"].as_u64() > Some(300), "{tried}");
            ensure!(tried["not_refused"] == json!([]), "user {user} of machine {vm}: {tried}");
        }
    }
    Ok(())
}

/// A process fills all pages that it can get, and dies. The next process finds zeros in the same
/// pages, at both ends.
fn pages_are_cleared_between_owners(lab: &Lab) -> Result<()> {
    // All free pages: root may take all of them.
    let mut root = Desk(lab.vm(0).run_as(0, ["express-desk"])?);
    let there_is = root.ask("memory 1")?;
    let count = |name: &str| there_is[name].as_u64().with_context(|| format!("no {name}: {there_is}"));
    let bytes = (count("pages")? - count("used")? - count("leaving")?) * 4096;
    for round in 0..2 {
        let mut viewer = Desk(lab.vm(1).run_as(1002, ["express-desk"])?);
        let made = root.ask(&format!("make 1 {bytes}"))?;
        let zeros = json!({ "words": bytes / 8, "of": bytes / 8 });
        root.expect(&format!("count {} 0", made["pages"]), &zeros).context("what is left of another")?;
        root.expect(&format!("fill {} {SAID}", made["pages"]), &json!({ "filled": bytes }))?;
        let view = viewer.ask(&format!("map 0 {} {}", made["area"], made["key"]))?;
        viewer.expect(&format!("count {} {SAID}", view["pages"]), &zeros)?;
        // In each round another of the two dies first.
        let (first, second) = if round == 0 { (&mut root, &mut viewer) } else { (&mut viewer, &mut root) };
        first.0.kill(9)?;
        first.0.wait()?;
        second.0.kill(9)?;
        second.0.wait()?;
        root = Desk(lab.vm(0).run_as(0, ["express-desk"])?);
        let free = || {
            let now = root.ask("memory 1")?;
            Ok(now["leaving"] == 0 && now["used"] == there_is["used"])
        };
        eventually(free, "its pages are free")?;
    }
    Ok(())
}

#[test]
fn hostile_kernel_reaches_only_its_own_memory() -> Result<()> {
    no_rules("shared")
}

#[test]
fn hostile_kernel_reaches_only_its_own_files() -> Result<()> {
    no_rules("isolated")
}

/// Hosts 0 and 2 communicate, and so do 0 and 3. Host 1 is hostile.
fn no_rules(form: &str) -> Result<()> {
    let small = ["--express", form, "--ports", "4", "--express-part", "128K"];
    // This kernel argument lets root access BARs directly.
    let lab = lab_of(Lab::builder().vms(4).switch_args(small).kernel_args("iomem=relaxed"));
    let (mut zero, mut two, mut three) = (rooms(&lab, 0)?, rooms(&lab, 2)?, rooms(&lab, 3)?);
    let (ours, told) = make(&mut zero, 0, 2)?;
    let ours_there = map(&mut two, &told)?;
    fill(&mut zero, ours, OURS)?;
    let (theirs, told) = make(&mut three, 3, 0)?;
    let theirs_there = map(&mut zero, &told)?;
    fill(&mut three, theirs, THEIRS)?;
    // Host 1 sees the pages that it shares with host 0, so the search is known to work.
    let (shared, told) = make(&mut zero, 0, 1)?;
    fill(&mut zero, shared, SHARED)?;
    // Host 2's credentials for that area are of no use to host 1.
    two.fails(&format!("map {told}"), "denied")?;
    let ([echo, talk], by_memory) = channel((&mut two, 2), &mut zero, "talk")?;
    ensure!(by_memory);
    let words = [OURS, THEIRS, SAID, SHARED].map(|word| word.to_string());
    // Searching everything that a card emulates takes minutes.
    let bars = &["bars", "--all"][..if_long(2, 1) as usize];
    let search = || -> Result<Value> {
        let found = lab
            .vm(1)
            .run_as(0, [bars, &["search"], &words.each_ref().map(String::as_str)].concat())?
            .finish()?;
        println!("{found:#?}");
        Ok(found.last().context("no answer")?["found"].clone())
    };
    let fill_all = |role: &str| -> Result<()> {
        let done = lab.vm(1).run_as(0, [bars, &[role, &HOSTILE.to_string()]].concat())?.finish()?;
        println!("{done:#?}");
        ensure!(done.last() == Some(&json!({ "done": true })), "{done:?}");
        Ok(())
    };
    let found = talking(&mut zero, talk, &mut two, echo, search)?;
    ensure!(found == json!([0, 0, 0, 2048]), "{found}");
    talking(&mut zero, talk, &mut two, echo, || fill_all("fill"))?;
    // It has changed the memory that it shares, and nothing else.
    all(&mut zero, shared, HOSTILE)?;
    let found = talking(&mut zero, talk, &mut two, echo, || fill_all("wreck").and_then(|()| search()));
    // The machine may have made itself unusable.
    if let Ok(found) = found {
        ensure!(found[0] == 0 && found[1] == 0 && found[2] == 0, "{found}");
    }
    all(&mut zero, ours, OURS)?;
    all(&mut two, ours_there, OURS)?;
    all(&mut three, theirs, THEIRS)?;
    all(&mut zero, theirs_there, THEIRS)?;
    rounds(&mut zero, talk, &mut two, echo)?;
    lab.check()?;
    [0, 2, 3].into_iter().try_for_each(|vm| log_is_clean(&lab, vm))
}

/// Starts a desk whose channels fit in small parts, and poll for a while before they sleep.
fn rooms(lab: &Lab, vm: usize) -> Result<Desk<Run>> {
    Ok(Desk(lab.vm(vm).run(["express-desk", "--capacity", "8192"])?))
}

/// Runs traffic between two desks for as long as `meanwhile` runs, with pauses that leave it the
/// host's processors.
fn talking<T: Send>(
    talker: &mut Desk<Run>,
    talk: u64,
    other: &mut Desk<Run>,
    echo: u64,
    meanwhile: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    scope(|threads| {
        let third = threads.spawn(meanwhile);
        while !third.is_finished() {
            rounds(talker, talk, other, echo)?;
            sleep(Duration::from_millis(100));
        }
        third.join().expect("it does not panic")
    })
}

fn rounds(talker: &mut Desk<Run>, talk: u64, other: &mut Desk<Run>, echo: u64) -> Result<()> {
    other.begin(&format!("echo {echo} 200"))?;
    talker.expect(&format!("talk {talk} 200 {SAID}"), &json!({ "talked": 200 }))?;
    ensure!(other.answer()? == json!({ "echoed": 200 }));
    Ok(())
}
