//! Makes the calls of a recording again, and compares what the card does.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind};

use hamlyn_card::card::{Card, Place, Store};
use hamlyn_card::ports::{Packet, VolatileSlice};
use hamlyn_trace::record::Record;

use crate::file::Call;
use crate::image::{Image, Space};
use crate::ports::{ReplayLink, ReplayPorts};
use crate::step::{Returned, Step, StepKind, of_progress, of_reading};

/// A card that is given a recording's calls.
pub struct Player {
    card: Box<dyn Card + Send>,
    image: RefCell<Image>,
    /// The card's time in nanoseconds.
    now: Cell<u64>,
    has_panicked: bool,
}

/// What a call did.
#[derive(Debug)]
pub struct Played {
    /// The call as the card made it now: what it did, without what it looked at, and its return.
    pub call: Call,
    /// How that differs from the recording.
    pub differences: Vec<Difference>,
    /// What the card looked at, and the recording does not have. The answer was what the recording
    /// had shown there last.
    pub unforeseen: Vec<Record>,
}

/// How a call differs from the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// The card did something else, or more, or less. The first such step is told.
    Step {
        /// What it did now.
        now: Option<Step>,
        /// What the recording has.
        recorded: Option<Step>,
    },
    /// The call returned something else.
    Return {
        /// What it returned now.
        now: Returned,
        /// What the recording has.
        recorded: Returned,
    },
    /// The card panicked, with this message.
    Panic(String),
    /// The recorded card's process ended in this call, and the card now returns.
    Survived,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nothing = || "nothing".to_owned();
        match self {
            Difference::Step { now, recorded } => {
                let [now, recorded] =
                    [now, recorded].map(|step| step.as_ref().map_or_else(nothing, Step::to_string));
                write!(f, "now:      {now}\n  recorded: {recorded}")
            }
            Difference::Return { now, recorded } => {
                write!(f, "now returns:      {now}\n  recorded returns: {recorded}")
            }
            Difference::Panic(message) => write!(f, "the card panics: {message}"),
            Difference::Survived => f.write_str("the recorded card's process ended here, and it now goes on"),
        }
    }
}

impl Player {
    /// Starts with a card in its power-on state.
    #[must_use]
    pub fn new(card: Box<dyn Card + Send>) -> Self {
        Self { card, image: RefCell::default(), now: Cell::new(0), has_panicked: false }
    }

    /// Returns the card.
    #[must_use]
    pub fn card(&self) -> &dyn Card {
        self.card.as_ref()
    }

    /// Returns bytes of the machine's memory, as far as the card has seen them; the others are 0.
    #[must_use]
    pub fn memory(&self, address: u64, length: usize) -> Vec<u8> {
        self.image.borrow().get(Space::Memory, address, length)
    }

    /// Whether the card has panicked, and can be called no more.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Makes a call.
    pub fn play(&mut self, call: &Call) -> Played {
        let ports = ReplayPorts::new(&call.steps, &self.image, &self.now);
        let card = &mut self.card;
        let returned = catch_unwind(AssertUnwindSafe(|| make(card.as_mut(), &call.step, &ports)));
        let (steps, unforeseen) = ports.finish();
        let mut differences = Vec::new();
        let recorded: Vec<&Step> = call.steps.iter().filter(|step| step.kind.is_output()).collect();
        // What a panic cut short is not compared.
        let compared = if returned.is_ok() { recorded.len().max(steps.len()) } else { 0 };
        let differs = (0..compared).find(|place| match (steps.get(*place), recorded.get(*place)) {
            (Some(now), Some(recorded)) => !now.is_same(recorded),
            _ => true,
        });
        if let Some(place) = differs.filter(|_| call.returned.is_some() || !call.step.kind.returns()) {
            let recorded = recorded.get(place).map(|step| (*step).clone());
            differences.push(Difference::Step { now: steps.get(place).cloned(), recorded });
        }
        let mut now_returned = None;
        match (returned, call.returned) {
            (Err(panic), _) => {
                self.has_panicked = true;
                differences.push(Difference::Panic(message(panic.as_ref())));
            }
            (Ok(Ended::Returned(now)), Some(recorded)) if now != recorded => {
                now_returned = Some(now);
                differences.push(Difference::Return { now, recorded });
            }
            (Ok(Ended::Returned(now)), recorded) => {
                now_returned = Some(now);
                differences.extend(recorded.is_none().then_some(Difference::Survived));
            }
            (Ok(Ended::Told(now)), _) => {
                if now.as_ref().is_none_or(|now| !now.is_same(&call.step)) {
                    differences.push(Difference::Step { now, recorded: Some(call.step.clone()) });
                }
            }
        }
        let call = Call { number: call.number, step: call.step.clone(), steps, returned: now_returned };
        Played { call, differences, unforeseen }
    }
}

/// How a call ended.
enum Ended {
    Returned(Returned),
    /// The card was asked for something that it has to tell.
    Told(Option<Step>),
}

fn make(card: &mut dyn Card, call: &Step, replay: &ReplayPorts<'_>) -> Ended {
    let Record { a, b, bar, width, failed, .. } = call.record;
    let ports = &replay.ports();
    let mut is_late = false;
    let value = match call.kind {
        StepKind::RegisterRead => {
            let (value, late) = of_reading(card.register_read(ports, bar, a, width));
            is_late = late;
            value
        }
        StepKind::RegisterWrite => {
            card.register_write(ports, bar, a, width, b);
            0
        }
        StepKind::StoreSeen => {
            let mut value = [0; 16];
            let length = call.bytes.len().min(value.len());
            value[..length].copy_from_slice(&call.bytes[..length]);
            if let Some(store) = Store::new(a, value, length as u8) {
                card.store_seen(ports, &store);
            }
            0
        }
        StepKind::MakeRoom => card.make_room(ports).into(),
        StepKind::SnoopingChanged => {
            card.snooping_changed(ports, a != 0);
            0
        }
        StepKind::Transmit => of_progress(card.transmit(ports, &mut ReplayLink(replay))),
        StepKind::PacketArrived => {
            let mut bytes = call.bytes.clone();
            let bytes = VolatileSlice::from(&mut bytes[..]).into();
            card.packet_arrived(ports, &Packet { source: a as u16, bytes });
            0
        }
        StepKind::Sleep => card.sleep(ports).into(),
        StepKind::Tick => {
            card.tick(ports);
            0
        }
        StepKind::LinkChanged => {
            let place = Place { host: a as u16, ports: b as u16 };
            card.link_changed(ports, Some(place).filter(|_| failed == 0));
            0
        }
        StepKind::Reset => {
            card.reset(ports);
            0
        }
        StepKind::LateReading => return Ended::Told(card.late_reading().map(|(a, b)| told(call, a, b))),
        StepKind::WatchChange => {
            return Ended::Told(card.watch_change().map(|(page, on)| told(call, page, on.into())));
        }
        _ => 0,
    };
    Ended::Returned(Returned::of(card, value, is_late))
}

fn told(call: &Step, a: u64, b: u64) -> Step {
    Step { record: Record { a, b, ..call.record }, ..call.clone() }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
