//! The same programs without a machine: processes of the host that attach directly to a card's
//! socket.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn::protocol::tagged_write::{TagReceiver, TagSender};
use hamlyn::{Arrival, Card, FetchOp, Message, NotificationQueue, SendBuffer, Slot, Terminus, Ticket};
use hamlyn_lab::Lab;
use hamlyn_tests::desk::{Desk, connected, end};
use hamlyn_tests::eventually::eventually;
use hamlyn_tests::program::Program;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

mod names;

fn ticket(answer: &Value) -> String {
    answer["ticket"].as_str().unwrap_or_else(|| panic!("no ticket in {answer}")).to_owned()
}

fn ping_pong(lab: &Lab, from: usize, to: usize) -> Result<()> {
    let mut echo = Program::start(lab, to, &["ping-pong", "serve"])?;
    let served = ticket(&echo.answer()?);
    let mut ping = Program::start(lab, from, &["ping-pong", "run", "--ticket", &served, "--count", "500"])?;
    let own = ticket(&ping.answer()?);
    echo.say(&own)?;
    assert_eq!(ping.finish()?["round_trips"], 500);
    assert_eq!(echo.finish()?["echoed"], 500);
    Ok(())
}

#[test]
fn host_processes_use_the_same_cards() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    Program::start(&lab, 0, &["self-test"])?.finish()?;
    ping_pong(&lab, 0, 1)?;
    let mut receiver =
        Program::start(&lab, 1, &["transfer", "receive", "--bytes", "1000003", "--seed", "3"])?;
    let to = ticket(&receiver.answer()?);
    let send = ["transfer", "send", "--ticket", &to, "--bytes", "1000003", "--seed", "3", "--buffers", "8"];
    Program::start(&lab, 0, &send)?.finish()?;
    assert_eq!(receiver.finish()?["verified"], true);
    Ok(())
}

/// At a card's socket there is one process, so no case has a second one.
#[test]
fn channels_keep_their_promises() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let mut server = Program::start(&lab, 1, &["channel-check", "serve"])?;
    ensure!(server.answer()? == json!({ "listening": "channel-check", "model": "hamlyn" }));
    let last = Program::start(&lab, 0, &["channel-check", "run", "1", "alone"])?.finish()?;
    ensure!(last["cases"].as_u64() > Some(10) && last["express"] == false, "{last}");
    server.child.kill()?;
    server.child.wait()?;
    Ok(())
}

#[test]
fn packets_cross_a_mesh() -> Result<()> {
    for one_process in [false, true] {
        let lab = Lab::builder().vms(0).spare_cards(4).one_process(one_process);
        let lab = lab.switch_args(["--mesh", "2x2"]).start()?;
        for (from, to) in [(0, 3), (2, 1)] {
            ping_pong(&lab, from, to)?;
        }
        // Along the row first: from 0 to 3 through node 1, and back through node 2.
        let links = lab.switch_counters()?["links"].clone();
        for link in ["0.in", "0.east", "1.south", "3.out", "3.in", "3.west", "2.north", "0.out"] {
            ensure!(links[link]["packets"].as_u64() >= Some(500), "{link}: {links}");
        }
    }
    Ok(())
}

#[test]
fn card_outlives_its_programs() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    for _ in 0..3 {
        let mut sink = Program::start(&lab, 1, &["flood", "sink"])?;
        let to = ticket(&sink.answer()?);
        let mut flood = Program::start(&lab, 0, &["flood", "send", "--ticket", &to])?;
        flood.answer()?;
        sink.child.kill()?;
        sink.child.wait()?;
        flood.child.kill()?;
        flood.child.wait()?;
        ping_pong(&lab, 1, 0)?;
    }
    Ok(())
}

/// Starts a program that sends long messages without end.
fn flood(lab: &Lab, from: usize, to: &str) -> Result<Program> {
    Program::start(lab, from, &["flood", "send", "--ticket", to, "--size", "4000000"])
}

#[test]
fn fabric_process_serves_every_card_under_load() -> Result<()> {
    let lab =
        Lab::builder().vms(0).spare_cards(4).one_process(true).card_args(["--handshake", "6000"]).start()?;
    let mut sink = Program::start(&lab, 0, &["flood", "sink", "--bytes", "4000000"])?;
    let to = ticket(&sink.answer()?);
    // Two senders fill one receiver's ring: each must continue when there is room again.
    let mut floods = [flood(&lab, 1, &to)?, flood(&lab, 2, &to)?];
    for _ in 0..4 {
        for flood in &mut floods {
            flood.answer()?;
        }
    }
    // A stopped host is still detected (section 2.8).
    let mut stopped = Program::start(&lab, 3, &["flood", "sink"])?;
    stopped.answer()?;
    ensure!(lab.card_counters(3)?["enabled"] == true);
    let pid = Pid::from_child(&stopped.child);
    kill_process(pid, Signal::STOP)?;
    while lab.card_counters(3)?["enabled"] == true {
        floods[0].answer()?;
    }
    ensure!(lab.card_counters(3)?["card"]["handshake_lapses"].as_u64() >= Some(1));
    kill_process(pid, Signal::CONT)?;
    for program in floods.iter_mut().chain([&mut sink, &mut stopped]) {
        program.child.kill()?;
        program.child.wait()?;
    }
    Ok(())
}

#[test]
fn message_after_unanswered_fetch_is_sent() -> Result<()> {
    for one_process in [false, true] {
        // Without the handshake's beats, nothing else wakes the card.
        let lab = Lab::builder().vms(0).spare_cards(2).one_process(one_process);
        let lab = lab.card_args(["--handshake", "0"]).start()?;
        let gone = {
            let other = open(&lab, 1)?;
            let area = other.create_area(4096)?;
            other.slot(&area).allow_fetch().create()?.fast_ticket()?
        };
        let card = open(&lab, 0)?;
        let area = card.create_area(4096)?;
        let slot = card.slot(&area).metadata_entries(1).create()?;
        let terminus = card.create_terminus()?;
        let fetch = terminus.fetch(&gone, 0, FetchOp::Add(1))?;
        let message = terminus.send(&Message::to(&slot.ticket(0)?), b"behind")?;
        let long = Duration::from_secs(60);
        ensure!(fetch.wait_timeout(long).is_err_and(|error| !error.is_timed_out()), "it is given up");
        message.wait_timeout(long)?;
        let mut arrived = [0; 6];
        while arrived != *b"behind" {
            area.read(0, &mut arrived)?;
        }
    }
    Ok(())
}

/// Opens a card for this test itself.
fn open(lab: &Lab, card: usize) -> Result<Card> {
    Ok(Card::open(&format!("vfio-user:{}", lab.card_socket(card)?.display()))?)
}

/// Number of messages that fills every ring on the way to a receiver that must get all of them.
const MANY: u32 = 4096;

/// Creates the place where messages arrive by number, all at the same offset.
fn place_for_many(card: &Card, size: usize) -> Result<(Slot, NotificationQueue)> {
    let area = card.create_area(size)?;
    let queue = card.create_queue(MANY)?;
    let slot = card.slot(&area).queue(&queue).interrupt(true).create()?;
    Ok((slot, queue))
}

/// Sends numbers from `first` on until the work queue is full and the switch has told the card to
/// stop. Returns the first number without room.
fn fill(lab: &Lab, terminus: &Terminus, to: &Ticket, buffer: &SendBuffer, first: u32) -> Result<u32> {
    for number in first..MANY {
        while let Err(error) =
            terminus.try_send(&Message::to(to).word(number), buffer.piece(0, buffer.len())?)
        {
            ensure!(error.is_would_block(), "{error}");
            if lab.switch_counters()?["ports"]["0"]["stops"].as_u64() > Some(0) {
                return Ok(number);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    anyhow::bail!("{MANY} messages did not fill the way to a card that takes none")
}

/// Checks that numbers from 0 on arrive in order.
fn all_arrive(queue: &NotificationQueue, count: u32) -> Result<()> {
    for number in 0..count {
        let arrival = queue.recv_timeout(Duration::from_secs(60))?.arrival;
        ensure!(matches!(arrival, Arrival::Fast(word) if word == number), "{arrival:?} for {number}");
    }
    Ok(())
}

#[test]
fn held_card_does_not_block_other_cards_messages() -> Result<()> {
    // The switch must not detach the card, however slow this is.
    let lab = Lab::builder().vms(0).spare_cards(3).switch_args(["--stall-timeout", "0"]);
    let lab = lab.card_args(["--handshake", "0"]).start()?;
    let [a, b, c] = [open(&lab, 0)?, open(&lab, 1)?, open(&lab, 2)?];
    let (size, long) = (4000, Duration::from_secs(60));
    let ((slot_b, queue_b), (slot_c, queue_c)) = (place_for_many(&b, size)?, place_for_many(&c, size)?);
    let (to_b, to_c) = (a.create_terminus()?, a.create_terminus()?);
    let (ticket_b, ticket_c) = (slot_b.fast_ticket()?, slot_c.fast_ticket()?);
    let held = lab.hold_card(1)?;
    // The buffer must exist until everything in it has been sent.
    let buffer = to_b.create_send_buffer(size)?;
    let taken = fill(&lab, &to_b, &ticket_b, &buffer, 0)?;
    for number in 0..300 {
        to_c.send(&Message::to(&ticket_c).word(number), b"past it")?.wait_timeout(long)?;
    }
    all_arrive(&queue_c, 300)?;
    ensure!(queue_b.try_recv()?.is_none(), "the card stands still, and yet takes messages");
    // Messages that the card had in progress when the switch stopped it have left room. All of them
    // are done now, because other termini have had their turns.
    let taken = fill(&lab, &to_b, &ticket_b, &buffer, taken)?;
    // The work queue stays full while the card is held. A sender that needs room sleeps, and is
    // woken afterwards.
    let file = to_b.file()?;
    ensure!(!to_b.arm_room()? && !readable(file.as_fd(), Duration::ZERO)?, "room that there is not");
    ensure!(to_b.wait_progress_timeout(Duration::from_millis(10)).is_err_and(|error| error.is_timed_out()));
    let (sender, ticket) = (to_b.clone(), ticket_b);
    let sending = std::thread::spawn(move || sender.send(&Message::to(&ticket).word(taken), b"the last"));
    drop(held);
    ensure!(readable(file.as_fd(), Duration::from_secs(60))? && to_b.arm_room()?, "room is not reported");
    sending.join().map_err(|_| anyhow::anyhow!("the sender panicked"))??.wait_timeout(long)?;
    all_arrive(&queue_b, taken + 1)
}

#[test]
fn file_becomes_readable_for_tags_and_requests() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(1).one_process(true).start()?;
    let card = open(&lab, 0)?;
    let mut receiver = TagReceiver::create(&card, 64, 8)?;
    let sender = TagSender::new(card.create_terminus()?);
    let (ticket, long) = (receiver.ticket()?, Duration::from_secs(60));
    ensure!(!receiver.arm()? && !readable(receiver.file()?.as_fd(), Duration::ZERO)?, "nothing has come");
    let handle = sender.send(&ticket, b"first", 0, 1)?;
    ensure!(
        handle.arm()? || readable(sender.terminus().file()?.as_fd(), long)?,
        "the request is not reported"
    );
    ensure!(readable(receiver.file()?.as_fd(), long)? && receiver.arm()?, "the tag is not reported");
    ensure!(receiver.try_recv()? == Some(1) && !receiver.arm()?, "there was one");
    sender.send(&ticket, b"second", 0, 2)?.wait_timeout(long)?;
    ensure!(receiver.arm()? || readable(receiver.file()?.as_fd(), long)?, "the second tag is not reported");
    ensure!(receiver.try_recv_tag(3)?.is_none() && receiver.arm()?, "it was put aside, and not taken");
    Ok(())
}

/// Returns whether a file is readable, now or until the timeout.
fn readable(file: BorrowedFd<'_>, patience: Duration) -> Result<bool> {
    Ok(poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&patience.try_into()?))? > 0)
}

/// Returns the number in an answer's field.
fn number(answer: &Value, field: &str) -> u64 {
    answer[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {answer}"))
}

fn seed(answer: &Value) -> String {
    answer["seed"].as_str().unwrap_or_else(|| panic!("no seed in {answer}")).to_owned()
}

/// Runs a stream between two programs. Returns the receiver's result.
fn stream(lab: &Lab, receive: &[&str], send: &[&str]) -> Result<Value> {
    let mut receiver = Program::start(lab, 1, &[&["stream"][..], receive].concat())?;
    let to = seed(&receiver.answer()?);
    Program::start(lab, 0, &[&["stream", "send", "--seed", &to][..], send].concat())?.finish()?;
    receiver.finish()
}

#[test]
fn streams_stay_ordered_over_a_reordering_switch() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).switch_args(["--paths", "4"]).start()?;
    let result = stream(&lab, &["receive"], &["--bytes", "3000000"])?;
    assert_eq!((number(&result, "received"), result["verified"].as_bool()), (3_000_000, Some(true)));
    // Few small records of which many are held at once, so that the sender waits and the receiver
    // allocates more. Also long buffers.
    let few = ["receive", "--record-size", "5000", "--records", "2", "--hold", "20"];
    let result = stream(&lab, &few, &["--bytes", "1000003", "--size", "300001", "--buffer"])?;
    assert_eq!(result["verified"], true);
    let result = stream(&lab, &["read"], &["--bytes", "20000", "--size", "7", "--flush"])?;
    assert_eq!((number(&result, "received"), result["verified"].as_bool()), (20_000, Some(true)));
    Ok(())
}

#[test]
fn abandoned_stream_is_reported() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(2).start()?;
    let mut receiver = Program::start(&lab, 1, &["stream", "receive"])?;
    let to = seed(&receiver.answer()?);
    let send = ["stream", "send", "--seed", &to, "--bytes", "100000", "--abandon"];
    Program::start(&lab, 0, &send)?.finish()?;
    let result = receiver.answer()?;
    assert_eq!(number(&result, "received"), 100_000);
    assert_eq!(result["lost"], "the peer is lost: it dropped its end without closing it");
    assert!(receiver.finish().is_err(), "it must not look like a good end");
    Ok(())
}

#[test]
fn datagrams_are_answered_by_their_ticket() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(3).start()?;
    let mut server = Program::start(&lab, 0, &["datagram", "serve", "--clients", "2", "--count", "220"])?;
    let answer = server.answer()?;
    let tickets = answer["tickets"].as_array().context("no tickets")?;
    let clients =
        tickets.iter().zip([(1, "200", "100"), (2, "20", "65536")]).map(|(to, (card, count, size))| {
            let to = to.as_str().context("a ticket is text")?;
            Program::start(&lab, card, &["datagram", "ask", "--ticket", to, "--count", count, "--size", size])
        });
    for client in clients.collect::<Result<Vec<_>>>()? {
        assert_eq!(client.finish()?["verified"], true);
    }
    assert_eq!(server.finish()?["answered"], 220);
    Ok(())
}

#[test]
fn rpc_works_over_a_reordering_switch() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(3).switch_args(["--paths", "4"]).start()?;
    let mut server = Program::start(&lab, 0, &["rpc", "serve"])?;
    server.answer()?;
    let mut clients = Vec::new();
    for card in [1, 2] {
        clients.push(Program::start(&lab, card, &["rpc", "check", "--rounds", "5"])?);
    }
    for client in clients {
        let checked = client.finish()?;
        ensure!(checked["verified"] == true && checked["calls"] == 45, "{checked}");
    }
    for _ in 0..2 {
        let gone = server.answer()?;
        ensure!(gone["gone"] == "it has closed", "{gone}");
    }
    let served = server.shut()?;
    ensure!(served["served"] == 96 && served["gone"] == 2, "{served}");
    Ok(())
}

#[test]
fn locks_of_two_managers_hold() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(5).start()?;
    let mut managers = Vec::new();
    for card in [0, 1] {
        let mut manager = Program::start(&lab, card, &["locks", "manage"])?;
        manager.answer()?;
        managers.push(manager);
    }
    let mut workers = Vec::new();
    for (card, seed) in [(2, "1"), (3, "2"), (4, "3")] {
        let work = ["locks", "work", "--managers", "0,1", "--seed", seed];
        workers.push(Program::start(&lab, card, &work)?);
    }
    let exclusive = workers.into_iter().map(|worker| Ok(number(&worker.finish()?, "exclusive")));
    let exclusive: u64 = exclusive.sum::<Result<_>>()?;
    let ended = managers.into_iter().map(Program::shut).collect::<Result<Vec<_>>>()?;
    ensure!(ended.iter().all(|manager| manager["held"] == 0), "{ended:?}");
    ensure!(ended[0]["counted"] == exclusive, "{exclusive} turns alone: {ended:?}");
    Ok(())
}

#[test]
fn timed_out_lock_request_is_never_granted() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(4).start()?;
    let mut manager = Program::start(&lab, 0, &["locks", "manage"])?;
    manager.answer()?;
    let hold = |card, more: &[&str]| -> Result<Program> {
        let mut program = Program::start(&lab, card, &[&["locks", "hold", "printer"], more].concat())?;
        ensure!(program.answer()?["asked"] == "printer");
        Ok(program)
    };
    let mut owner = hold(1, &[])?;
    ensure!(owner.answer()?["held"] == "printer");
    let mut impatient = hold(2, &["--timeout", "1"])?;
    ensure!(impatient.answer()?["given_up"] == "printer");
    let mut next = hold(3, &[])?;
    owner.shut()?;
    // The client that gave up is still running.
    let held = next.answer()?;
    ensure!(held["held"] == "printer", "{held}");
    next.shut()?;
    impatient.shut()?;
    ensure!(manager.shut()?["held"] == 0);
    Ok(())
}

#[test]
fn active_messages_count_a_histogram() -> Result<()> {
    let lab = Lab::builder().vms(0).spare_cards(3).switch_args(["--paths", "4"]).start()?;
    let mut ranks = Vec::new();
    for rank in 0..3 {
        let own = rank.to_string();
        let argv = ["active-messages", "--rank", &own, "--hosts", "0,1,2", "--samples", "5000"];
        ranks.push(Program::start(&lab, rank, &argv)?);
    }
    for rank in ranks {
        let counted = rank.finish()?;
        ensure!(counted["verified"] == true, "{counted}");
    }
    Ok(())
}
