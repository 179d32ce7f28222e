//! A stock QEMU reports its guest's stores to ordinary memory through this project's plugin: each
//! with its address, width and value, in order. The card is a thread of this program.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hamlyn_door::{Kind, Listener};
use hamlyn_lab::{Accel, Kit, Lab, Run};
use hamlyn_snoop::{PAGE, Size, Snoop, Store};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::{Turn, eventually, lab_of};

/// The longest time that a store may take to arrive.
const PATIENCE: Duration = Duration::from_secs(600);
/// Number of rounds of each processor in `processors`.
const TIMES: u64 = 300;
/// The value that the example stores last.
const LAST: u64 = 0xe0f0_e0f0_e0f0_e0f0;

/// Returns QEMU's argument for the plugin.
fn plugin(socket: &Path) -> Result<String> {
    let library = Kit::find()?.program("libhamlyn_snoop.so")?;
    Ok(format!("{},socket={}", library.display(), socket.display()))
}

/// A card that receives stores and forwards them.
struct Card {
    socket: PathBuf,
    _folder: TempDir,
    watch: Option<Sender<u64>>,
    told: Receiver<Store>,
    live: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Card {
    fn start(records: u64) -> Result<Card> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("snoop");
        let listener = Listener::bind(&socket, Kind::Messages, 1)?;
        let snoop = Snoop::create(Size::default().pages, records)?;
        let ((watch, wishes), (tell, told)) = (channel(), channel());
        let live = Arc::new(AtomicBool::new(false));
        let seen = live.clone();
        let thread = thread::spawn(move || serve(snoop, &listener, &wishes, &tell, &seen));
        Ok(Card { socket, _folder: folder, watch: Some(watch), told, live, thread: Some(thread) })
    }

    /// Watches the page at a guest-physical address.
    fn watch(&self, address: u64) -> Result<()> {
        self.watch.as_ref().context("it ends")?.send(address / PAGE).context("the card is gone")
    }

    fn next(&self) -> Result<Store> {
        self.told.recv_timeout(PATIENCE).context("a store is missing")
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.watch = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The card's loop. Ends when the sender of page requests is dropped.
fn serve(mut snoop: Snoop, door: &Listener, wishes: &Receiver<u64>, tell: &Sender<Store>, live: &AtomicBool) {
    const A_WHILE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
    loop {
        match wishes.try_recv() {
            Ok(page) => snoop.watch(page, true).unwrap(),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return,
        }
        snoop.accept(door).unwrap();
        while let Ok(Some(store)) = snoop.next() {
            let _ = tell.send(store);
        }
        live.store(snoop.is_live(), Ordering::Relaxed);
        if snoop.sleep() {
            match snoop.bell() {
                Some(bell) => drop(poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&A_WHILE))),
                None => thread::sleep(Duration::from_millis(5)),
            }
            snoop.hear();
        }
    }
}

/// A machine whose program stores to watched pages.
struct Snooped {
    card: Card,
    stores: Run,
    /// Addresses of the program's pages.
    pages: Vec<u64>,
    _lab: Turn,
}

impl Snooped {
    fn start(records: u64, arguments: &'static [&'static str]) -> Result<Snooped> {
        let card = Card::start(records)?;
        let plugin = plugin(&card.socket)?;
        let lab = lab_of(Lab::builder().vms(1).accel(Accel::Tcg).qemu_args(move |_, _| {
            let arguments = arguments.iter().map(|&word| word.to_owned());
            arguments.chain(["-plugin".to_owned(), plugin.clone()]).collect()
        }));
        let mut stores = lab.vm(0).run_as(0, ["c-stores"])?;
        let pages = stores.line()?.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        ensure!(pages.len() == 3, "{pages:x?}");
        pages.iter().try_for_each(|page| card.watch(*page))?;
        eventually(|| Ok(card.live.load(Ordering::Relaxed)), "all code tells of its stores")?;
        Ok(Snooped { card, stores, pages, _lab: lab })
    }

    /// Returns the address of an offset of the program.
    fn address(&self, offset: u64) -> u64 {
        self.pages[(offset / PAGE) as usize] + offset % PAGE
    }

    /// Makes the program perform stores of a kind. Returns the stores that it reports: addresses
    /// and bytes.
    fn make(&mut self, kind: &str) -> Result<Vec<(u64, Vec<u8>)>> {
        self.stores.say(kind)?;
        let mut made = Vec::new();
        loop {
            let line = self.stores.line()?;
            let words: Vec<&str> = line.split(' ').collect();
            let [offset, width, digits] = words[..] else {
                ensure!(line == "end", "{line}");
                return Ok(made);
            };
            let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
            let bytes = bytes.collect::<Result<Vec<u8>, _>>()?;
            ensure!(width == bytes.len().to_string(), "{line}");
            made.push((self.address(offset.parse()?), bytes));
        }
    }

    /// Checks that each store of these kinds is reported as it was made, and that no other is.
    fn hold(&mut self, kinds: &[&str]) -> Result<()> {
        for kind in kinds {
            let made = self.make(kind)?;
            ensure!(!made.is_empty(), "{kind}");
            for (at, (address, bytes)) in made.iter().enumerate() {
                let told = self.card.next().with_context(|| format!("{kind}, the store of number {at}"))?;
                let same = told.address == *address && told.bytes() == bytes;
                ensure!(same, "{kind} {at}: {told:x?}, not {bytes:x?} at {address:x}");
            }
        }
        Ok(())
    }

    /// Checks stores by the kernel. It copies in stores of any width, so all bytes are compared, in
    /// order.
    fn hold_kernel(&mut self) -> Result<()> {
        self.make("kernel")?;
        let text: Vec<u8> = (0..3000u32).map(|at| (at * 13 + 5) as u8).collect();
        let mut at = 0;
        while at < text.len() {
            let told = self.card.next()?;
            ensure!(told.address == self.address(PAGE + 2001 + at as u64), "{at}: {told:x?}");
            let end = at + told.bytes().len();
            ensure!(text.get(at..end) == Some(told.bytes()), "{at}: {told:x?}");
            at = end;
        }
        Ok(())
    }

    /// Checks two processors: the stores of each arrive in its program order, and their increments
    /// of a shared word in the order of counting.
    fn hold_processors(&mut self) -> Result<()> {
        self.make("processors")?;
        let (own, both, byte) = ([0, 64].map(|at| self.address(at)), self.address(1024), self.address(PAGE));
        let last = self.address(PAGE + 8);
        // The first page is zeroed before.
        let (mut counted, mut steps) = (0, [0; 2]);
        loop {
            let told = self.card.next()?;
            let number = told.bytes().iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
            if told.address == last {
                ensure!(number == LAST && counted == 2 * TIMES, "{told:x?} after {counted}");
                break;
            }
            if told.bytes().iter().all(|byte| *byte == 0) && told.address != byte {
                ensure!(counted == 0, "{told:x?}");
                continue;
            }
            let processor = told.processor as usize;
            let step = steps.get_mut(processor).with_context(|| format!("{told:x?}"))?;
            let place = match *step % 3 {
                0 => (own[processor], *step / 3 + 1),
                1 => {
                    counted += 1;
                    (both, counted)
                }
                _ => (byte, processor as u64),
            };
            ensure!((told.address, number) == place, "step {step}: {told:x?}, not {place:x?}");
            *step += 1;
        }
        ensure!(steps == [3 * TIMES; 2], "{steps:?}");
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        self.stores.close_stdin()?;
        self.stores.finish_text()?;
        ensure!(self.card.told.try_recv().is_err(), "more was told than was stored");
        Ok(())
    }
}

const KINDS: [&str; 8] = ["plain", "crossing", "vectors", "strings", "locked", "stack", "code", "mapping"];

#[test]
fn each_store_is_reported_completely_and_in_order() -> Result<()> {
    // The ring is full most of the time. The processor then waits, and no store is lost.
    let mut snooped = Snooped::start(4, &[])?;
    snooped.hold(&KINDS)?;
    snooped.hold_kernel()?;
    snooped.hold(&KINDS)?;
    snooped.end()
}

#[test]
fn stores_of_two_processors_have_one_order() -> Result<()> {
    let arguments = &["-smp", "2", "-accel", "tcg,thread=single"];
    let mut snooped = Snooped::start(Size::default().records, arguments)?;
    snooped.hold(&KINDS)?;
    snooped.hold_kernel()?;
    snooped.hold_processors()?;
    snooped.hold(&KINDS)?;
    snooped.end()
}

/// Starts a machine with nothing but the plugin.
fn start(plugin: &str, arguments: &[&str]) -> Result<Output> {
    let mut qemu = Command::new(Kit::find()?.qemu);
    qemu.args(["-nodefaults", "-display", "none", "-machine", "q35", "-plugin", plugin]).args(arguments);
    Ok(qemu.output()?)
}

fn is_refused(plugin: &str, arguments: &[&str], why: &str) -> Result<()> {
    let output = start(plugin, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{plugin}: {} {said}", output.status);
    ensure!(said.contains(why), "{plugin}: {said}");
    Ok(())
}

#[test]
fn machine_that_cannot_be_snooped_fails_to_start() -> Result<()> {
    let library = Kit::find()?.program("libhamlyn_snoop.so")?;
    let library = library.to_str().context("no text")?;
    is_refused(library, &[], "an argument is missing: socket=PATH")?;
    is_refused(&format!("{library},socket=/tmp,colour=red"), &[], "\"colour=red\" is not understood")?;
    let nowhere = tempfile::tempdir()?;
    is_refused(&plugin(&nowhere.path().join("card"))?, &[], "cannot reach the card at")?;
    let card = Card::start(4)?;
    let side_by_side = &["-smp", "2", "-accel", "tcg,thread=multi"];
    is_refused(&plugin(&card.socket)?, side_by_side, "start QEMU with -accel tcg,thread=single")
}
