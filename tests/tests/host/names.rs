//! Names and connections of programs at cards' sockets, which have no operating system of their own.

use super::*;

/// A program that listens and connects as it is told, a line each.
struct Desk(Program);

impl Desk {
    fn open(lab: &Lab, card: usize) -> Result<Self> {
        Program::start(lab, card, &["connections"]).map(Self)
    }

    fn ask(&mut self, line: &str) -> Result<Value> {
        self.0.say(line)?;
        self.0.answer()
    }

    /// Asks, and fails on another answer.
    fn expect(&mut self, line: &str, answer: &Value) -> Result<()> {
        let given = self.ask(line)?;
        ensure!(given == *answer, "{line}: {given}, not {answer}");
        Ok(())
    }

    fn fails(&mut self, line: &str, reason: &str) -> Result<()> {
        let given = self.ask(line)?;
        ensure!(given["error"].as_str().is_some_and(|text| text.contains(reason)), "{line}: {given}");
        Ok(())
    }
}

/// `svc` on card `server`, and a program on card `client` that is connected to it: connection 1 in both.
fn connected(lab: &Lab, server: usize, client: usize) -> Result<(Desk, Desk)> {
    let (mut listening, mut connecting) = (Desk::open(lab, server)?, Desk::open(lab, client)?);
    listening.expect("listen svc", &json!({ "listening": "svc" }))?;
    connecting.0.say(&format!("connect {server} svc question"))?;
    let accepted = json!({ "connection": 1, "host": client, "private": "question" });
    listening.expect("accept svc answer", &accepted)?;
    let made = connecting.0.answer()?;
    ensure!(made == json!({ "connection": 1, "private": "answer" }), "{made}");
    Ok((listening, connecting))
}

fn refused(reason: &str, text: &str) -> Value {
    json!({ "refused": reason, "private": text })
}

fn end(reason: &str, text: &str) -> Value {
    json!({ "reason": reason, "private": text })
}

#[test]
fn two_programs_find_each_other_by_name() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let (mut server, mut client) = connected(&lab, 1, 0)?;
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
    let counters = lab.card_counters(1)?;
    ensure!(counters["card"]["refused_privilege"] == 1, "{counters}");
    Ok(())
}

#[test]
fn the_end_of_a_program_is_told_at_once_or_when_it_is_missed() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    // One that ends as programs do says so itself.
    let (mut server, client) = connected(&lab, 1, 0)?;
    let Program { mut child, stdin, .. } = client.0;
    drop(stdin);
    ensure!(child.wait()?.success());
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
        ensure!(server.answer()?["listening"].is_string());
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
