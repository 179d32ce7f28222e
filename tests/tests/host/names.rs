//! Names and connections of programs at cards' sockets, which have no operating system of their
//! own.

use super::*;

type Desk = crate::Desk<Program>;

fn refused(reason: &str, text: &str) -> Value {
    json!({ "refused": reason, "private": text })
}

#[test]
fn two_programs_find_each_other_by_name() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let (mut server, mut client) = connected::<Program, Program>(&lab, 1, 0)?;
    // Who is not there, who is there already, who does not want to, who has enough.
    client.expect("connect 1 nobody", &refused("no_name", ""))?;
    server.fails("listen svc", "in use")?;
    client.0.say("connect 1 svc please")?;
    server.expect("reject svc not today", &json!({ "host": 0, "private": "please" }))?;
    ensure!(client.0.answer()? == refused("rejected", "not today"));
    server.expect("listen small 1", &json!({ "listening": "small" }))?;
    client.expect("ask 1 small", &json!({ "asked": "small" }))?;
    client.expect("connect 1 small", &refused("backlog_full", ""))?;
    // A program may ask itself.
    server.expect("listen own", &json!({ "listening": "own" }))?;
    server.expect("ask 1 own", &json!({ "asked": "own" }))?;
    server.expect("accept own", &json!({ "connection": 2, "host": 1, "private": "" }))?;
    server.expect("drop 2", &json!({ "dropped": "2" }))?;
    // Ends that are told of, and why.
    client.expect("look 1", &Value::Null)?;
    client.expect("close 1 bye", &json!({ "closed": "1" }))?;
    server.expect("end 1", &end("closed", "bye"))?;
    // No process may say what only an operating system may.
    client.expect("forge 1", &json!({ "forged": 1 }))?;
    // It has been sent when it is said so, and is refused a moment later.
    let refused = || Ok(lab.card_counters(1)?["card"]["refused_privilege"] == 1);
    eventually(refused, "it is refused and counted")
}

#[test]
fn a_program_finds_a_name_wherever_it_is() -> Result<()> {
    // At the third card nobody is, and the switch has 64 ports.
    let lab = Lab::builder().vms(0).spare_cards(3).start()?;
    let (mut server, mut client) = (Desk::open(&lab, 1)?, Desk::open(&lab, 0)?);
    let found = |hosts: &[u32]| json!({ "hosts": hosts, "too_old": [], "silent": 62 });
    client.expect("find svc", &found(&[]))?;
    server.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    client.expect("listen svc 1", &json!({ "listening": "svc" }))?;
    client.expect("find svc", &found(&[0, 1]))?;
    client.expect("unlisten svc", &json!({ "unlistened": "svc" }))?;
    // No question has taken the only place of the backlog.
    client.0.say("any svc question")?;
    let accepted = json!({ "connection": 1, "host": 0, "private": "question" });
    server.expect("accept svc answer", &accepted)?;
    let made = client.0.answer()?;
    ensure!(made == json!({ "connection": 1, "host": 1, "private": "answer" }), "{made}");
    let nobody = json!({ "refused": "no_name", "private": "", "host": null });
    client.expect("any nobody", &nobody)?;
    server.expect("find svc", &found(&[1]))
}

#[test]
fn the_end_of_a_program_is_told_at_once_or_when_it_is_missed() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    // One that ends as programs do says so itself.
    let (mut server, client) = connected::<Program, Program>(&lab, 1, 0)?;
    client.0.end()?;
    server.expect("end 1", &end("died", ""))?;
    // One that is killed cannot, and its card with it.
    let mut client = Desk::open(&lab, 0)?;
    client.0.say("connect 1 svc question")?;
    server.expect("accept svc answer", &json!({ "connection": 2, "host": 0, "private": "question" }))?;
    client.0.answer()?;
    client.0.child.kill()?;
    client.0.child.wait()?;
    server.expect("end 2", &end("host_lost", ""))?;
    // Who comes next is another, and is let in.
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
