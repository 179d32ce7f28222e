//! Paranoid and paranoid one-shot slots (section 2.7): clients that share a slot and do not trust
//! each other.

use anyhow::{Context, Result, ensure};
use hamlyn_lab::{Lab, Run};
use serde_json::Value;

use crate::{eventually, shared};

/// A client of a mailbox, on any machine.
struct Client<'a> {
    lab: &'a Lab,
    vm: usize,
    ticket: String,
}

impl Client<'_> {
    fn send(&self) -> Result<()> {
        self.send_bytes("1000")
    }

    fn send_bytes(&self, bytes: &str) -> Result<()> {
        let send = ["mailbox", "send", "--ticket", &self.ticket, "--bytes", bytes];
        self.lab.vm(self.vm).run(send)?.finish().map(drop)
    }

    /// Attempts a forbidden operation. Returns when the client's card has sent it.
    fn attack(&self, how: &str, other: &Client<'_>) -> Result<()> {
        let attack = ["mailbox", "attack", "--ticket", &self.ticket, "--how", how, "--other", &other.ticket];
        self.lab.vm(self.vm).run(attack)?.finish().map(drop)
    }
}

/// The mailbox's server.
struct Server<'a> {
    lab: &'a Lab,
    vm: usize,
    run: Run,
    /// Number of refusals before.
    refused: u64,
}

impl Server<'_> {
    fn ask(&mut self, line: &str) -> Result<Value> {
        self.run.say(line)?;
        self.run.answer().with_context(|| format!("the answer to {line:?}"))
    }

    fn take(&mut self, client: usize) -> Result<()> {
        let took = self.ask("take")?;
        ensure!(took["took"] == client && took["verified"] == true, "{took}");
        Ok(())
    }

    fn count(&self, reason: &str) -> Result<u64> {
        self.lab.card_counters(self.vm)?["card"][reason].as_u64().context(reason.to_owned())
    }

    /// Checks that a client's attempt is refused with this reason and changes nothing.
    fn refuses(&mut self, client: &Client<'_>, how: &str, other: &Client<'_>, reason: &str) -> Result<()> {
        let reason = &format!("refused_{reason}");
        let before = self.count(reason)?;
        client.attack(how, other)?;
        self.refused += 1;
        let (lab, vm, due) = (self.lab, self.vm, self.refused);
        eventually(|| Ok(lab.refused(vm)? == due), reason)?;
        ensure!(self.count(reason)? == before + 1, "another reason than {reason}");
        let check = self.ask("check")?;
        ensure!(check["unchanged"] == true && check["unread"] == 0, "{reason}: {check}");
        ensure!(check["refused"][reason].as_u64() >= Some(1), "{reason}: {check}");
        Ok(())
    }
}

/// Runs a server on one machine with a client on each of the others. The first client is hostile.
pub(crate) fn suspicious_clients(lab: &Lab, server: usize, clients: &[usize], one_shot: bool) -> Result<()> {
    let count = clients.len().to_string();
    let mut serve = vec!["mailbox", "serve", "--clients", &count, "--bytes", "12288"];
    serve.extend(one_shot.then_some("--one-shot"));
    let mut run = lab.vm(server).run(serve)?;
    let tickets = run.answer()?;
    let ticket = |index: usize| tickets["tickets"][index].as_str().map(str::to_owned);
    let clients: Vec<Client<'_>> = clients
        .iter()
        .enumerate()
        .map(|(index, vm)| Ok(Client { lab, vm: *vm, ticket: ticket(index).context("a ticket for each")? }))
        .collect::<Result<_>>()?;
    let mut server = Server { lab, vm: server, run, refused: lab.refused(server)? };
    let (hostile, last) = (&clients[0], &clients[clients.len() - 1]);

    for (index, client) in clients.iter().enumerate() {
        client.send()?;
        server.take(index)?;
    }
    for (how, reason) in [
        ("wrong-key", "paranoid_key"),
        ("wrong-entry", "paranoid_key"),
        ("other-bounds", "paranoid_bounds"),
        ("past-end", "paranoid_bounds"),
        ("fast", "fast_paranoid"),
    ] {
        server.refuses(hostile, how, last, reason)?;
    }
    // The slot's own bounds are checked first, because the last client's end is also the slot's
    // end.
    server.refuses(last, "past-end", hostile, "bounds")?;
    if one_shot {
        // A second message arrives before the first has been processed.
        last.send()?;
        let held = server.ask("hold")?;
        ensure!(held["armed"] == false, "{held}");
        server.refuses(last, "as-it-is", hostile, "one_shot")?;
        server.ask(&format!("rearm {}", clients.len() - 1))?;
        last.send()?;
        server.take(clients.len() - 1)?;
    }
    // The hostile client leaves a packet count behind. With it, a message of three packets would
    // look whole after two. A message that is whole, and might overtake that, comes later.
    hostile.attack("half", last)?;
    eventually(|| Ok(server.ask("check")?["partial"] == 1), "half a message")?;
    hostile.attack("as-it-is", last)?;
    let held = server.ask("hold")?;
    ensure!(held["took"] == 0, "{held}");
    // One key is revoked. The other clients are not affected.
    server.ask("revoke 0")?;
    server.ask("rearm 0")?;
    server.refuses(hostile, "as-it-is", last, "paranoid_key")?;
    last.send()?;
    server.take(clients.len() - 1)?;
    let fresh = server.ask("ticket 0")?;
    let readmitted = Client { ticket: fresh["ticket"].as_str().context("a ticket")?.to_owned(), ..*hostile };
    readmitted.send_bytes("10000")?;
    server.take(0)?;
    server.run.close_stdin()?;
    let end = server.run.finish()?;
    let end = end.last().context("a last word")?;
    ensure!(end["unchanged"] == true && end["unread"] == 0 && end["partial"] == 0, "{end}");
    Ok(())
}

#[test]
fn paranoid_slots_keep_clients_apart() -> Result<()> {
    let lab = shared();
    for one_shot in [false, true] {
        // Both clients on one machine, and one of them on the server's machine.
        suspicious_clients(&lab, 0, &[1, 1], one_shot)?;
        suspicious_clients(&lab, 0, &[0, 1], one_shot)?;
    }
    Ok(())
}
