//! Connections made by the operating systems (sections 6.3 and 6.4): set up by name, with
//! notification when a peer ends.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::{Value, json};

use crate::desk::{self, end};
use crate::left::log_is_clean;
use crate::program::Program;
use crate::{Turn, eventually, if_long, lab, lab_of, shared, shared_three};

type Desk = crate::desk::Desk<Run>;

/// Checks for a reason that only names the host. Which one it is depends on which event the
/// client's kernel sees first.
fn host_is_gone(desk: &mut Desk) -> Result<()> {
    let answer = desk.ask("end 1")?;
    ensure!(answer["reason"] == "host_lost" || answer["reason"] == "host_reset", "{answer}");
    Ok(())
}

fn connected(lab: &Lab, server: usize, client: usize) -> Result<(Desk, Desk)> {
    desk::connected(lab, server, client)
}

/// Starts machines that give up a silent host after six seconds, so that tests are short. The limit
/// is not lower because a host on a busy machine may be late without being dead.
fn impatient(vms: usize) -> Result<Turn> {
    let lab = lab_of(Lab::builder().vms(vms).card_args(["--handshake", "6000"]));
    for vm in 0..vms {
        let hurry = "echo 6000 > /sys/module/hamlyn/parameters/peer_timeout";
        lab.vm(vm).run_as(0, ["sh", "-c", hurry])?.finish_text()?;
    }
    Ok(lab)
}

#[test]
fn names_requests_and_answers() -> Result<()> {
    let lab = shared();
    let (mut server, mut client) = connected(&lab, 1, 0)?;
    // No listener, a name in use, a rejection, a full backlog.
    let refused = |reason: &str, text: &str| json!({ "refused": reason, "private": text });
    client.expect("connect 1 absent", &refused("no_name", ""))?;
    server.fails("listen svc", "in use")?;
    Desk::open(&lab, 1)?.fails("listen svc", "in use")?;
    client.begin("connect 1 svc please")?;
    server.expect("reject svc not today", &json!({ "host": 0, "private": "please" }))?;
    ensure!(client.answer()? == refused("rejected", "not today"));
    server.expect("listen small 1", &json!({ "listening": "small" }))?;
    client.expect("ask 1 small", &json!({ "asked": "small" }))?;
    client.expect("connect 1 small", &refused("backlog_full", ""))?;
    // A request that is cancelled before it is accepted frees its place in the backlog.
    // Host 1 receives the cancellation before it answers the next request.
    client.expect("forget", &json!({ "forgotten": true }))?;
    client.expect("connect 1 absent", &refused("no_name", ""))?;
    client.begin("connect 1 small second")?;
    server.expect("accept small", &json!({ "connection": 2, "host": 0, "private": "second" }))?;
    ensure!(client.answer()? == json!({ "connection": 2, "private": "" }));
    // A request that waits for a closed listener is refused; an accepted connection stays.
    let received = || -> Result<_> { Ok(lab.card_counters(1)?["card"]["messages_received"].as_u64()) };
    let before = received()?;
    client.begin("connect 1 small third")?;
    eventually(|| Ok(received()? > before), "it waits")?;
    server.expect("unlisten small", &json!({ "unlistened": "small" }))?;
    ensure!(client.answer()? == refused("no_name", ""));
    client.expect("look 2", &Value::Null)?;
    client.fails("connect 64 svc", "No route to host")?;
    log_is_clean(&lab, 0)?;
    log_is_clean(&lab, 1)
}

#[test]
fn find_returns_every_host_with_the_name() -> Result<()> {
    let lab = shared_three();
    let (mut first, mut second) = (Desk::open(&lab, 1)?, Desk::open(&lab, 2)?);
    let mut client = Desk::open(&lab, 0)?;
    // The switch has 64 ports. Most hosts are absent, and the client waits for them only once.
    let found = |hosts: &[u32]| json!({ "hosts": hosts, "too_old": [], "silent": 61 });
    client.expect("find svc", &found(&[]))?;
    first.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    second.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    client.expect("find svc", &found(&[1, 2]))?;
    first.expect("unlisten svc", &json!({ "unlistened": "svc" }))?;
    // A lookup does not use up the only place in the backlog.
    client.begin("any svc question")?;
    second.expect("accept svc answer", &json!({ "connection": 1, "host": 0, "private": "question" }))?;
    ensure!(client.answer()? == json!({ "connection": 1, "host": 2, "private": "answer" }));
    client.expect("any absent", &json!({ "refused": "no_name", "private": "", "host": null }))?;
    // A host finds its own listener.
    second.expect("find svc", &found(&[2]))?;
    (0..3).try_for_each(|vm| log_is_clean(&lab, vm))
}

#[test]
fn process_cannot_forge_kernel_messages() -> Result<()> {
    let lab = shared();
    let (mut server, mut client) = connected(&lab, 1, 0)?;
    let refusals = || -> Result<u64> {
        Ok(lab.card_counters(1)?["card"]["refused_privilege"].as_u64().unwrap_or_default())
    };
    ensure!(refusals()? == 0);
    for forged in 1..=3 {
        client.expect("forge 1", &json!({ "forged": 1 }))?;
        eventually(|| Ok(refusals()? == forged), "it is refused and counted")?;
    }
    // Root's processes cannot either. The driver does not limit them by shares.
    let mut root = desk::Desk(lab.vm(0).run_as(0, ["connections"])?);
    root.begin("connect 1 svc question")?;
    server.expect("accept svc answer", &json!({ "connection": 2, "host": 0, "private": "question" }))?;
    ensure!(root.answer()? == json!({ "connection": 1, "private": "answer" }));
    root.expect("forge 1", &json!({ "forged": 1 }))?;
    eventually(|| Ok(refusals()? == 4), "root's is refused and counted, too")?;
    root.expect("close 1", &json!({ "closed": "1" }))?;
    server.expect("end 2", &end("closed", ""))?;
    // The operating systems are not affected.
    client.expect("close 1", &json!({ "closed": "1" }))?;
    server.expect("end 1", &end("closed", ""))
}

#[test]
fn close_drop_and_death_are_distinguished() -> Result<()> {
    let lab = shared();
    let (mut server, mut client) = connected(&lab, 0, 1)?;
    server.expect("look 1", &Value::Null)?;
    client.expect("close 1 good bye", &json!({ "closed": "1" }))?;
    server.expect("end 1", &end("closed", "good bye"))?;
    server.expect("look 1", &end("closed", "good bye"))?;

    let mut client = Desk::open(&lab, 1)?;
    client.begin("connect 0 svc")?;
    server.ask("accept svc")?;
    client.answer()?;
    client.expect("drop 1", &json!({ "dropped": "1" }))?;
    server.expect("end 2", &end("died", ""))?;

    client.begin("connect 0 svc")?;
    server.ask("accept svc")?;
    client.answer()?;
    client.0.kill(9)?;
    client.0.wait()?;
    server.expect("end 3", &end("died", ""))?;

    // The acceptor dies, and its name becomes free.
    let mut client = Desk::open(&lab, 1)?;
    client.begin("connect 0 svc")?;
    server.ask("accept svc")?;
    client.answer()?;
    server.0.kill(9)?;
    server.0.wait()?;
    client.expect("end 1", &end("died", ""))?;
    client.expect("connect 0 svc", &json!({ "refused": "no_name", "private": "" }))?;
    Ok(())
}

#[test]
fn two_processes_of_one_machine_connect() -> Result<()> {
    let lab = shared();
    let (mut server, mut client) = connected(&lab, 0, 0)?;
    server.expect("close 1 enough", &json!({ "closed": "1" }))?;
    client.expect("end 1", &end("closed", "enough"))?;
    server.begin("serve svc 200")?;
    client.expect("churn 0 svc 200", &json!({ "made": 200 }))?;
    ensure!(server.answer()? == json!({ "served": 200, "closed": 200 }));
    log_is_clean(&lab, 0)
}

#[test]
fn dead_or_paused_host_is_reported_and_reconnects() -> Result<()> {
    let lab = impatient(3)?;
    let (_server, mut client) = connected(&lab, 1, 0)?;
    let (mut other_server, mut other_client) = connected(&lab, 2, 0)?;
    lab.vm(1).kill()?;
    host_is_gone(&mut client)?;
    // A host that has died, and one that never existed.
    client.expect("connect 1 svc", &json!({ "refused": "host_lost", "private": "" }))?;
    client.expect("connect 9 svc", &json!({ "refused": "host_lost", "private": "" }))?;
    other_client.expect("look 1", &Value::Null)?;
    lab.vm(1).start()?;
    connected(&lab, 1, 0)?;

    lab.vm(2).pause()?;
    host_is_gone(&mut other_client)?;
    lab.vm(2).resume()?;
    // The host detects the lapse itself, or its peer reports it.
    let answer = other_server.ask("end 1")?;
    let known = ["lapsed", "host_reset", "host_lost"];
    ensure!(known.iter().any(|reason| answer["reason"] == *reason), "{answer}");
    other_client.begin("connect 2 svc back")?;
    other_server.expect("accept svc", &json!({ "connection": 2, "host": 0, "private": "back" }))?;
    other_client.answer()?;
    Ok(())
}

#[test]
fn card_reset_and_reboot_end_connections() -> Result<()> {
    let lab = lab(2);
    let (mut server, mut client) = connected(&lab, 1, 0)?;
    let reset = "for card in /sys/bus/pci/drivers/hamlyn/0000:*; do echo 1 > $card/reset; done";
    lab.vm(1).run_as(0, ["sh", "-c", reset])?.finish_text()?;
    server.expect("end 1", &end("card_reset", ""))?;
    server.fails("accept svc", "No such device")?;
    host_is_gone(&mut client)?;
    drop((server, client));

    let (_server, mut client) = connected(&lab, 1, 0)?;
    lab.vm(1).reboot()?;
    host_is_gone(&mut client)?;
    let (mut server, _client) = connected(&lab, 1, 0)?;
    server.expect("look 1", &Value::Null)?;
    log_is_clean(&lab, 0)?;
    log_is_clean(&lab, 1)
}

#[test]
fn link_loss_during_a_pause_ends_connections() -> Result<()> {
    let lab = lab(2);
    let (mut server, mut client) = connected(&lab, 1, 0)?;
    lab.vm(0).pause()?;
    lab.restart_switch()?;
    let linked = || {
        let ports = &lab.switch_counters()?["ports"];
        Ok(["0", "1"].iter().all(|port| ports[port]["attached"] == true))
    };
    eventually(linked, "the cards have their links again")?;
    lab.vm(0).resume()?;
    client.expect("end 1", &end("link_lost", ""))?;
    server.expect("end 1", &end("link_lost", ""))?;
    let log = lab.vm(0).run_as(0, ["dmesg"])?.finish_text()?;
    ensure!(log.iter().any(|line| line.contains("link was down")), "{log:#?}");
    connected(&lab, 0, 1).map(drop)
}

/// Returns the number of pinned pages of programs. It may be negative for a moment, because the
/// kernel counts pins and unpins separately.
fn pinned(lab: &Lab, vm: usize) -> Result<i64> {
    let text = lab.vm(vm).read("/proc/vmstat")?;
    let count = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("a counter of pins")?;
        line.trim().parse::<i64>().context("a number")
    };
    Ok(count("nr_foll_pin_acquired ")? - count("nr_foll_pin_released ")?)
}

/// Like [`pinned`], after the kernel has summed up its per-processor counters.
fn pinned_now(lab: &Lab, vm: usize) -> Result<i64> {
    lab.vm(vm).run_as(0, ["sh", "-c", "echo 1 > /proc/sys/vm/stat_refresh"])?.finish_text()?;
    pinned(lab, vm)
}

#[test]
fn thousands_of_streams_by_name_leave_nothing_behind() -> Result<()> {
    // The cards have only a few more termini and queues than processes and drivers need, so each
    // must be returned.
    let small = ["--termini", "8", "--queues", "8"];
    let lab = lab_of(Lab::builder().vms(2).switch_args(["--paths", "4"]).card_args(small));
    let streams = if_long(2000, 300);
    let clients = (streams + 21).to_string();
    let mut server = lab.vm(1).run(["echo-server", "serve", "--clients", &clients])?;
    server.answer()?;
    let mut client = lab.vm(0).run(["echo-server", "churn", "--host", "1"])?;
    client.set_patience(std::time::Duration::from_secs(900));
    // State that is shared by all connections exists after the first.
    let mut churn = |count: u32| -> Result<()> {
        client.say(&count.to_string())?;
        ensure!(client.answer()? == json!({ "made": count }));
        for _ in 0..count {
            ensure!(server.answer()? == json!({ "echoed": 100 }));
        }
        Ok(())
    };
    churn(10)?;
    let before = [pinned_now(&lab, 0)?, pinned_now(&lab, 1)?];
    churn(streams)?;
    for (vm, before) in before.into_iter().enumerate() {
        eventually(|| Ok(pinned_now(&lab, vm)? == before), "nothing more is pinned than before")?;
        log_is_clean(&lab, vm)?;
    }
    // Both processes are still running and use the card as before.
    churn(10)
}

#[test]
fn thousands_of_connections_leave_nothing_behind() -> Result<()> {
    // More connections than the card has slots, so each slot must be returned.
    let small = ["--sram", "262144"];
    let count = if_long(10_000, 2000);
    let lab = lab_of(Lab::builder().vms(2).switch_args(["--paths", "4"]).card_args(small));
    let (mut server, mut client) = connected(&lab, 1, 0)?;
    let before = [pinned(&lab, 0)?, pinned(&lab, 1)?];
    server.begin(&format!("serve svc {count}"))?;
    client.0.set_patience(std::time::Duration::from_secs(900));
    server.0.set_patience(std::time::Duration::from_secs(900));
    client.expect(&format!("churn 1 svc {count}"), &json!({ "made": count }))?;
    ensure!(server.answer()? == json!({ "served": count, "closed": count }));
    client.expect("look 1", &Value::Null)?;
    eventually(|| Ok([pinned(&lab, 0)?, pinned(&lab, 1)?] == before), "nothing is pinned any more")?;
    for vm in 0..2 {
        lab.vm(vm).run_as(0, ["self-test"])?.finish()?;
        log_is_clean(&lab, vm)?;
    }
    // The module unloads once its users are gone, so it holds nothing of theirs.
    server.0.kill(9)?;
    server.0.wait()?;
    client.expect("end 1", &end("died", ""))?;
    lab.vm(1).run_as(0, ["rmmod", "hamlyn"])?.finish_text()?;
    lab.vm(1).run_as(0, ["insmod", "/lib/hamlyn.ko"])?.finish_text()?;
    connected(&lab, 1, 0)?;
    Ok(())
}

/// Connects a program at a card's socket with a program in a machine. The library is the operating
/// system of the first, and the kernel that of the second.
#[test]
fn machine_and_socket_program_connect_by_name() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(1).spare_cards(1));
    let (mut here, mut there) = desk::connected::<Program, Run>(&lab, 1, 0)?;
    there.expect("close 1 enough", &json!({ "closed": "1" }))?;
    here.expect("end 1", &end("closed", "enough"))?;
    there.expect("listen own", &json!({ "listening": "own" }))?;
    here.expect("connect 0 absent", &json!({ "refused": "no_name", "private": "" }))?;
    here.begin("connect 0 own")?;
    there.expect("accept own", &json!({ "connection": 2, "host": 1, "private": "" }))?;
    ensure!(here.answer()? == json!({ "connection": 2, "private": "" }));
    there.0.kill(9)?;
    there.0.wait()?;
    here.expect("end 2", &end("died", ""))?;
    // The other way round. The program's library ends with it, so the kernel must detect the loss
    // itself.
    here.0.end()?;
    let (here, mut there) = desk::connected::<Program, Run>(&lab, 1, 0)?;
    here.0.end()?;
    let answer = there.ask("end 1")?;
    ensure!(answer["reason"] == "died" || answer["reason"] == "host_lost", "{answer}");
    log_is_clean(&lab, 0)
}

#[test]
fn peers_learn_each_others_user() -> Result<()> {
    let lab = shared();
    let mut server = Desk::from(lab.vm(1).run_as(1002, ["connections"])?);
    let mut client = Desk::from(lab.vm(0).run_as(0, ["connections"])?);
    server.expect("listen users", &json!({ "listening": "users" }))?;
    client.begin("connect 1 users")?;
    let accepted = json!({ "connection": 1, "host": 0, "private": "" });
    server.expect("accept users", &accepted)?;
    ensure!(client.answer()?["connection"] == 1);
    client.expect("user 1", &json!({ "user": 1002 }))?;
    server.expect("user 1", &json!({ "user": 0 }))
}

#[test]
fn reserved_names_need_a_capability() -> Result<()> {
    let lab = shared();
    let mut user = Desk::open(&lab, 0)?;
    user.fails("listen system/clock", "ermission denied")?;
    user.fails("listen system/", "ermission denied")?;
    user.expect("listen system", &json!({ "listening": "system" }))?;
    let mut root = Desk::from(lab.vm(0).run_as(0, ["connections"])?);
    root.expect("listen system/clock", &json!({ "listening": "system/clock" }))?;
    // These are for operating systems alone.
    root.fails("listen kernel/net", "ermission denied")?;
    root.fails("connect 1 kernel/net", "ermission denied")?;
    // Any user may connect to the name.
    user.expect("ask 0 system/clock", &json!({ "asked": "system/clock" }))?;
    root.expect("accept system/clock", &json!({ "connection": 1, "host": 0, "private": "" }))
}

#[test]
fn hosts_without_a_port_are_refused_at_once() -> Result<()> {
    let lab = lab_of(Lab::builder().vms(1).switch_args(["--ports", "2"]));
    let mut client = Desk::open(&lab, 0)?;
    for host in [2, 7, 63] {
        client.fails(&format!("connect {host} anything"), "os error 113")?;
    }
    Ok(())
}

#[test]
fn requests_are_charged_to_the_listener() -> Result<()> {
    const REQUESTS: u64 = 100;
    /// Minimum size of a connection, in bytes.
    const SIZE: u64 = 1024;
    let lab = lab(1);
    let group = "/sys/fs/cgroup/listener";
    let enter = format!(
        "set -e; mount -t cgroup2 none /sys/fs/cgroup; echo +memory > /sys/fs/cgroup/cgroup.subtree_control; \
         mkdir {group}; echo $$ > {group}/cgroup.procs; exec connections"
    );
    let mut server = Desk::from(lab.vm(0).run_as(0, ["sh", "-c", &enter])?);
    server.expect("listen charged 128", &json!({ "listening": "charged" }))?;
    let charged = || -> Result<u64> {
        let statistics = lab.vm(0).run_as(0, ["cat", &format!("{group}/memory.stat")])?.finish_text()?;
        let line = statistics.iter().find_map(|line| line.strip_prefix("slab ")).context("slab")?;
        Ok(line.parse()?)
    };
    let before = charged()?;
    let mut client = Desk::open(&lab, 0)?;
    for _ in 0..REQUESTS {
        client.expect("ask 0 charged", &json!({ "asked": "charged" }))?;
    }
    eventually(|| Ok(charged()? >= before + REQUESTS * SIZE), "the listener is charged for the requests")
}
