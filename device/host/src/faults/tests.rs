//! A station whose card misbehaves by rule, and programs that set the rules.

use std::path::{Path, PathBuf};
use std::thread;

use hamlyn_card::ports::{Packet, VolatileSlice};
use hamlyn_faults::talk::{Answer, Request, VERSION};

use super::{FaultServer, ask, processes_of};
use crate::station::Station;

/// A station without a machine.
struct Faulty {
    folder: tempfile::TempDir,
    station: Station,
    server: FaultServer,
}

impl Faulty {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let station = Station::without_machine(folder.path());
        let server = FaultServer::bind_in(folder.path(), "card").unwrap();
        Self { folder, station, server }
    }

    fn socket(&self) -> PathBuf {
        processes_of(self.folder.path()).unwrap().remove(0)
    }

    /// Asks. The server's answer needs calls of `serve` meanwhile.
    fn ask(&mut self, request: Request) -> anyhow::Result<Answer> {
        let socket = self.socket();
        let asking = thread::spawn(move || ask(Path::new(&socket), &request));
        while !asking.is_finished() {
            self.server.serve(vec![("card0", &mut self.station)]);
            thread::yield_now();
        }
        asking.join().unwrap()
    }

    fn set(&mut self, rules: &str) -> anyhow::Result<Answer> {
        self.ask(Request { version: VERSION, card: None, rules: Some(rules.into()), seed: 5 })
    }

    fn packet(&mut self) {
        let mut bytes = [7; 64];
        let bytes = VolatileSlice::from(&mut bytes[..]).into();
        self.station.packet_arrived(&Packet { source: 2, bytes });
    }

    /// Returns how many packets the card has discarded.
    fn discarded(&self) -> u64 {
        self.station.counters()["card"]["discarded"].as_u64().unwrap()
    }
}

#[test]
fn rules_are_set_and_counted() {
    let mut faulty = Faulty::new();
    assert!(faulty.set("packet drop every=2\ninterrupt drop").unwrap().cards[0].rules.is_empty());
    (0..5).for_each(|_| faulty.packet());
    assert_eq!(faulty.discarded(), 3);
    let answer = faulty.set("").unwrap();
    let card = &answer.cards[0];
    assert_eq!((card.card.as_str(), card.seed, card.rules.len()), ("card0", 5, 2));
    assert_eq!((card.rules[0].events, card.rules[0].faults), (5, 2));
    faulty.station.tick();
    faulty.packet();
    assert_eq!(faulty.discarded(), 4);
    let asked = faulty.ask(Request { version: VERSION, card: None, rules: None, seed: 0 }).unwrap();
    assert!(asked.cards[0].rules.is_empty());
}

#[test]
fn delayed_packets_come_at_a_tick() {
    let mut faulty = Faulty::new();
    faulty.set("packet delay by=1ms").unwrap();
    (0..3).for_each(|_| faulty.packet());
    while faulty.discarded() < 3 {
        let alarm = faulty.station.alarm().expect("packets wait");
        thread::sleep(alarm);
        faulty.station.tick();
    }
    // What waits comes when the rules end.
    faulty.set("packet delay by=1000s").unwrap();
    faulty.packet();
    assert_eq!(faulty.discarded(), 3);
    faulty.set("").unwrap();
    faulty.station.tick();
    assert_eq!((faulty.discarded(), faulty.station.alarm()), (4, None));
}

#[test]
fn stuck_card_takes_nothing_and_does_not_tick() {
    let mut faulty = Faulty::new();
    faulty.set("card stick for=1000s").unwrap();
    faulty.station.tick();
    assert!(!faulty.station.takes_packets());
    faulty.set("").unwrap();
    faulty.station.tick();
    assert!(faulty.station.takes_packets());
}

#[test]
fn wrong_requests_change_nothing() {
    let mut faulty = Faulty::new();
    faulty.set("packet drop").unwrap();
    let refused = faulty.set("packet melt").unwrap_err().to_string();
    assert!(refused.contains("packet has no action \"melt\""), "{refused}");
    let version = faulty.ask(Request { version: 9, card: None, rules: None, seed: 0 }).unwrap_err();
    assert_eq!(version.to_string(), "requests of version 9 (this process: 1)");
    let other = faulty.ask(Request {
        version: VERSION,
        card: Some("card1".into()),
        rules: Some(String::new()),
        seed: 0,
    });
    assert!(other.unwrap().cards.is_empty());
    faulty.packet();
    assert_eq!(faulty.discarded(), 0);
}

#[test]
fn silent_program_does_not_keep_others_out() {
    let mut faulty = Faulty::new();
    let silent =
        hamlyn_fabric::message::connect(&faulty.socket(), std::time::Duration::from_secs(9)).unwrap();
    (0..3).for_each(|_| _ = faulty.server.serve(vec![("card0", &mut faulty.station)]));
    faulty.set("packet drop").unwrap();
    faulty.packet();
    assert_eq!(faulty.discarded(), 0);
    drop(silent);
}

#[test]
fn request_with_descriptors_is_not_received() {
    use std::os::fd::AsFd;

    use hamlyn_fabric::message::{connect, receive, send_with};

    let mut faulty = Faulty::new();
    let asking = connect(&faulty.socket(), std::time::Duration::from_secs(9)).unwrap();
    let request = Request { version: VERSION, card: None, rules: Some("packet drop".into()), seed: 0 };
    let text = serde_json::to_vec(&request).unwrap();
    send_with(&asking, &text, &[asking.as_fd()]).unwrap();
    (0..3).for_each(|_| _ = faulty.server.serve(vec![("card0", &mut faulty.station)]));
    assert!(receive(&asking, 9).map_or(true, |(answer, _)| answer.is_empty()));
    faulty.packet();
    assert_eq!(faulty.discarded(), 1);
}
