//! Names and connections of programs at cards' sockets, without an operating system of their own.

use super::*;

type Desk = crate::Desk<Program>;

fn refused(reason: &str, text: &str) -> Value {
    json!({ "refused": reason, "private": text })
}

#[test]
fn two_programs_find_each_other_by_name() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let (mut server, mut client) = connected::<Program, Program>(&lab, 1, 0)?;
    // The refusals: an unknown name, a name in use, a rejection, a full backlog.
    client.expect("connect 1 absent", &refused("no_name", ""))?;
    server.fails("listen svc", "in use")?;
    client.0.say("connect 1 svc please")?;
    server.expect("reject svc not today", &json!({ "host": 0, "private": "please" }))?;
    ensure!(client.0.answer()? == refused("rejected", "not today"));
    server.expect("listen small 1", &json!({ "listening": "small" }))?;
    client.expect("ask 1 small", &json!({ "asked": "small" }))?;
    client.expect("connect 1 small", &refused("backlog_full", ""))?;
    // A program may connect to itself.
    server.expect("listen own", &json!({ "listening": "own" }))?;
    server.expect("ask 1 own", &json!({ "asked": "own" }))?;
    server.expect("accept own", &json!({ "connection": 2, "host": 1, "private": "" }))?;
    server.expect("drop 2", &json!({ "dropped": "2" }))?;
    // The end of a connection is reported with its reason.
    client.expect("look 1", &Value::Null)?;
    client.expect("close 1 bye", &json!({ "closed": "1" }))?;
    server.expect("end 1", &end("closed", "bye"))?;
    // A process may not send messages that are reserved for the operating system.
    client.expect("forge 1", &json!({ "forged": 1 }))?;
    // The request completes as sent, and is refused a moment later.
    let refused = || Ok(lab.card_counters(1)?["card"]["refused_privilege"] == 1);
    eventually(refused, "it is refused and counted")
}

#[test]
fn name_is_found_on_every_host() -> Result<()> {
    // The third card has no program, and the switch has 64 ports.
    let lab = Lab::builder().vms(0).spare_cards(3).start()?;
    let (mut server, mut client) = (Desk::open(&lab, 1)?, Desk::open(&lab, 0)?);
    let found = |hosts: &[u32]| json!({ "hosts": hosts, "too_old": [], "silent": 62 });
    client.expect("find svc", &found(&[]))?;
    server.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    client.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    client.expect("find svc", &found(&[0, 1]))?;
    client.expect("unlisten svc", &json!({ "unlistened": "svc" }))?;
    // No search has taken the only place in the backlog.
    client.0.say("any svc question")?;
    let accepted = json!({ "connection": 1, "host": 0, "private": "question" });
    server.expect("accept svc answer", &accepted)?;
    let made = client.0.answer()?;
    ensure!(made == json!({ "connection": 1, "host": 1, "private": "answer" }), "{made}");
    let absent = json!({ "refused": "no_name", "private": "", "host": null });
    client.expect("any absent", &absent)?;
    server.expect("find svc", &found(&[1]))
}

#[test]
fn program_exit_or_kill_is_reported_to_peer() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    // A program that exits normally closes its connections itself.
    let (mut server, client) = connected::<Program, Program>(&lab, 1, 0)?;
    client.0.end()?;
    server.expect("end 1", &end("died", ""))?;
    // A program that is killed cannot, and its card disappears with it.
    let mut client = Desk::open(&lab, 0)?;
    client.0.say("connect 1 svc question")?;
    server.expect("accept svc answer", &json!({ "connection": 2, "host": 0, "private": "question" }))?;
    client.0.answer()?;
    client.0.child.kill()?;
    client.0.child.wait()?;
    server.expect("end 2", &end("host_lost", ""))?;
    // The next client is a different program, and is accepted.
    let mut client = Desk::open(&lab, 0)?;
    client.0.say("connect 1 svc question")?;
    server.expect("accept svc answer", &json!({ "connection": 3, "host": 0, "private": "question" }))?;
    ensure!(client.0.answer()? == json!({ "connection": 1, "private": "answer" }));
    Ok(())
}

#[test]
fn streams_are_served_by_name() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(3).start()?;
    for how in [&["--clients", "2"][..], &["--clients", "2", "--tokio"]] {
        let mut server = Program::start(&lab, 0, &[&["echo-server", "serve"][..], how].concat())?;
        let listening = server.answer()?;
        ensure!(listening["listening"].is_string(), "{how:?}: {listening}");
        let call = ["echo-server", "call", "--host", "0", "--bytes", "300000"];
        let clients = [1, 2].map(|card| Program::start(&lab, card, &call));
        for client in clients {
            let called = client?.finish()?;
            ensure!(called["verified"] == true, "{called}");
        }
        server.finish()?;
    }
    Ok(())
}
