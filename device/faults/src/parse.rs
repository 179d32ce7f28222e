//! Rules as text: one for each line, `SUBJECT ACTION KEY=VALUE...`.

use std::collections::BTreeMap;
use std::time::Duration;

use hamlyn_trace::contract::Contract;
use thiserror::Error;

use crate::rule::{
    CommandFault, Fault, Interrupt, PacketFault, Place, Read, State, TimedFault, Timing, What, When,
};

/// Maximum number of rules.
const MOST: usize = 64;
/// Longest time of a rule.
const LONGEST: Duration = Duration::from_secs(3600);

/// Subjects with their actions, for errors.
const ACTIONS: &[(&str, &str)] = &[
    ("interrupt", "drop, twice, delay, coalesce"),
    ("read", "ones, value, stick"),
    ("write", "drop, twice"),
    ("access", "delay"),
    ("command", "refuse, answer, drop, twice"),
    ("dma", "fail"),
    ("packet", "drop, twice, delay, reorder, cut, corrupt"),
    ("fifo", "full"),
    ("link", "down"),
    ("card", "stick, remove, reset"),
    ("clock", "jump"),
];

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleError {
    /// The rule does not begin with a subject.
    #[error(
        "line {line}: {word:?} is not a subject (interrupt, read, write, access, command, dma, packet, fifo, link, card, clock)"
    )]
    Subject {
        /// Its line, from 1.
        line: usize,
        /// The word.
        word: String,
    },
    /// The subject does not have the action.
    #[error("line {line}: {subject} has no action {word:?} (it has: {actions})")]
    Action {
        /// Its line, from 1.
        line: usize,
        /// The subject.
        subject: String,
        /// The word.
        word: String,
        /// The actions of the subject.
        actions: String,
    },
    /// A word is not a key with a value, or the rule does not have the key, or has it twice.
    #[error("line {line}: {word:?} is not one of the rule's keys with a value ({keys})")]
    Key {
        /// Its line, from 1.
        line: usize,
        /// The word.
        word: String,
        /// The keys of the rule.
        keys: String,
    },
    /// A key that the rule needs is missing.
    #[error("line {line}: the rule needs {key}=")]
    Missing {
        /// Its line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// A value is not what its key needs.
    #[error("line {line}: {key}={value}: {expected} is expected")]
    Value {
        /// Its line, from 1.
        line: usize,
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// What is expected.
        expected: String,
    },
    /// There are too many rules.
    #[error("{0} rules are too many (limit {MOST})")]
    TooMany(usize),
}

/// Rules for a card of one model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rules(pub(crate) Vec<(String, What)>);

impl Rules {
    /// Parses rules, one for each line. `#` begins a comment. Names of registers, commands and
    /// statuses are those of `contract`.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn parse(text: &str, contract: &Contract) -> Result<Rules, RuleError> {
        let mut rules = Vec::new();
        for (index, whole) in text.lines().enumerate() {
            let rule = whole.split('#').next().unwrap_or_default().trim();
            if !rule.is_empty() {
                let mut words = Words::of(rule, index + 1)?;
                let what = words.rule(contract)?;
                words.end()?;
                rules.push((rule.split_whitespace().collect::<Vec<_>>().join(" "), what));
            }
        }
        if rules.len() > MOST { Err(RuleError::TooMany(rules.len())) } else { Ok(Rules(rules)) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A rule's words.
struct Words<'a> {
    line: usize,
    subject: &'a str,
    action: &'a str,
    values: BTreeMap<&'a str, &'a str>,
    /// Keys that the rule may have, those that were asked for.
    keys: Vec<&'static str>,
}

impl<'a> Words<'a> {
    fn of(rule: &'a str, line: usize) -> Result<Self, RuleError> {
        let mut words = rule.split_whitespace();
        let (subject, action) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut values = BTreeMap::new();
        for word in words {
            let wrong = || RuleError::Key { line, word: word.into(), keys: "each once".into() };
            let (key, value) = word.split_once('=').ok_or_else(wrong)?;
            if values.insert(key, value).is_some() {
                return Err(wrong());
            }
        }
        Ok(Words { line, subject, action, values, keys: Vec::new() })
    }

    fn rule(&mut self, contract: &Contract) -> Result<What, RuleError> {
        let fault = match (self.subject, self.action) {
            ("fifo", "full") => return self.state(State::Full),
            ("link", "down") => return self.state(State::Down),
            ("card", "stick") => return self.state(State::Stuck),
            ("card", "remove") => return self.state(State::Removed),
            ("card", "reset") => return self.timed(TimedFault::Reset),
            ("clock", "jump") => {
                let by = self.needed("by", Self::time)?;
                return self.timed(TimedFault::Jump(by));
            }
            ("interrupt", action) => {
                let how = match action {
                    "drop" => Interrupt::Drop,
                    "twice" => Interrupt::Twice,
                    "delay" => Interrupt::Delay(self.needed("by", Self::time)?),
                    "coalesce" => Interrupt::Coalesce(self.needed("by", Self::time)?),
                    _ => return Err(self.no_action()),
                };
                Fault::Interrupt {
                    vector: self.number("vector", u16::MAX.into())?.map(|vector| vector as u16),
                    how,
                }
            }
            ("read", action) => {
                let how = match action {
                    "ones" => Read::Value(u64::MAX),
                    "value" => Read::Value(self.needed("value", |words, key| words.number(key, u64::MAX))?),
                    "stick" => Read::Stuck,
                    _ => return Err(self.no_action()),
                };
                Fault::Read { place: self.place(contract)?, how }
            }
            ("write", "drop" | "twice") => {
                Fault::Write { place: self.place(contract)?, twice: self.action == "twice" }
            }
            ("access", "delay") => Fault::Access { by: self.needed("by", Self::time)? },
            ("command", action) => {
                let status = |words: &mut Self, key| words.named(key, contract, "STATUS");
                let how = match action {
                    "refuse" => CommandFault::Refuse(self.needed("status", status)?),
                    "answer" => CommandFault::Answer(self.needed("status", status)?),
                    "drop" => CommandFault::Drop,
                    "twice" => CommandFault::Twice,
                    _ => return Err(self.no_action()),
                };
                Fault::Command { opcode: self.named("opcode", contract, "COMMAND")?, how }
            }
            ("dma", "fail") => {
                let page = self.number("page", u64::MAX)?.map(|address| address & !0xfff);
                let writes = self.value("access", "read or write", |value| match value {
                    "read" => Some(false),
                    "write" => Some(true),
                    _ => None,
                })?;
                Fault::Dma { page, writes }
            }
            ("packet", action) => {
                let how = match action {
                    "drop" => PacketFault::Drop,
                    "twice" => PacketFault::Twice,
                    "reorder" => PacketFault::Reorder,
                    "cut" => PacketFault::Cut(self.number("bytes", 65_536)?.unwrap_or(1) as usize),
                    "corrupt" => PacketFault::Corrupt,
                    "delay" => PacketFault::Delay {
                        by: self.time("by")?.unwrap_or_default(),
                        jitter: self.time("jitter")?.unwrap_or_default(),
                        rate: self.number("rate", u64::MAX)?.filter(|rate| *rate > 0),
                    },
                    _ => return Err(self.no_action()),
                };
                Fault::Packet { from: self.number("from", u16::MAX.into())?.map(|host| host as u16), how }
            }
            _ => return Err(self.no_action()),
        };
        Ok(What::Event(fault, self.when()?))
    }

    fn state(&mut self, state: State) -> Result<What, RuleError> {
        let lasting = self.needed("for", Self::time)?;
        self.timed(TimedFault::State(state, lasting))
    }

    fn timed(&mut self, fault: TimedFault) -> Result<What, RuleError> {
        let every = self.value("every", "a time of at least 1ms", |value| {
            time_of(value).filter(|every| *every >= Duration::from_millis(1))
        })?;
        let times = self.number("times", u64::MAX)?.or(if every.is_none() { Some(1) } else { None });
        let after = self.time("after")?.unwrap_or_default();
        Ok(What::Timed(fault, Timing { after, every, times }))
    }

    fn when(&mut self) -> Result<When, RuleError> {
        let chance = self.value("chance", "a number from 0 to 1", |value| {
            value.parse().ok().filter(|chance| (0.0..=1.0).contains(chance))
        })?;
        let positive = |words: &mut Self, key| {
            words
                .value(key, "a number of at least 1", |value| value.parse().ok().filter(|number| *number > 0))
        };
        let (nth, every) = (positive(self, "nth")?, positive(self, "every")?);
        Ok(When { nth, every, chance, times: self.number("times", u64::MAX)? })
    }

    /// Returns a register, by its name or as `BAR:OFFSET`, or a whole BAR as `BAR:`.
    fn place(&mut self, contract: &Contract) -> Result<Option<Place>, RuleError> {
        self.value("at", "a register's name, BAR:OFFSET or BAR:", |value| match value.split_once(':') {
            None => contract.named("REG", value).map(|offset| Place { bar: 0, offset: Some(offset) }),
            Some((bar, offset)) => {
                let bar = bar.parse().ok().filter(|bar| *bar < 6)?;
                let offset = if offset.is_empty() { None } else { Some(number_of(offset)?) };
                Some(Place { bar, offset })
            }
        })
    }

    /// Returns a number of a group of the contract, by its name or as it is.
    fn named(
        &mut self,
        key: &'static str,
        contract: &Contract,
        group: &str,
    ) -> Result<Option<u32>, RuleError> {
        let expected = format!("a number, or a name such as {}", contract.names(group));
        self.value(key, &expected, |value| {
            let number = number_of(value).or_else(|| contract.named(group, value))?;
            number.try_into().ok()
        })
    }

    fn number(&mut self, key: &'static str, limit: u64) -> Result<Option<u64>, RuleError> {
        self.value(key, &format!("a number of at most {limit}"), |value| {
            number_of(value).filter(|number| *number <= limit)
        })
    }

    fn time(&mut self, key: &'static str) -> Result<Option<Duration>, RuleError> {
        self.value(key, "a time of at most 3600s, as in 5ms (us, ms, s)", time_of)
    }

    fn needed<T>(
        &mut self,
        key: &'static str,
        value: impl FnOnce(&mut Self, &'static str) -> Result<Option<T>, RuleError>,
    ) -> Result<T, RuleError> {
        value(self, key)?.ok_or(RuleError::Missing { line: self.line, key })
    }

    fn value<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        of: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, RuleError> {
        self.keys.push(key);
        let Some(value) = self.values.remove(key) else { return Ok(None) };
        of(value).map(Some).ok_or_else(|| RuleError::Value {
            line: self.line,
            key,
            value: value.into(),
            expected: expected.into(),
        })
    }

    fn no_action(&self) -> RuleError {
        let (line, word) = (self.line, self.action.to_owned());
        match ACTIONS.iter().find(|(subject, _)| *subject == self.subject) {
            Some((subject, actions)) => {
                RuleError::Action { line, subject: (*subject).into(), word, actions: (*actions).into() }
            }
            None => RuleError::Subject { line, word: self.subject.into() },
        }
    }

    /// Fails if a key is left that the rule does not have.
    fn end(self) -> Result<(), RuleError> {
        let Some((key, value)) = self.values.first_key_value() else { return Ok(()) };
        let (word, keys) = (format!("{key}={value}"), self.keys.join(", "));
        Err(RuleError::Key { line: self.line, word, keys })
    }
}

/// Returns a decimal or hexadecimal number.
fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn time_of(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match &text[digits.len()..] {
        "us" => Duration::from_micros(1),
        "ms" => Duration::from_millis(1),
        "s" => Duration::from_secs(1),
        _ => return None,
    };
    unit.checked_mul(number.try_into().ok()?).filter(|time| *time <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<What>, RuleError> {
        let rules = Rules::parse(text, &Contract::of("hamlyn"))?;
        Ok(rules.0.into_iter().map(|(_, what)| what).collect())
    }

    #[test]
    fn registers_and_commands_have_the_contracts_names() {
        let rules = parse(
            "# a comment\n\nread stick at=COMMAND_STATUS  every=3 # another\nwrite drop at=4:\n\
             command refuse status=MEMORY_FULL opcode=TEST_DMA nth=2\nread value at=2:0x10 value=0x20",
        )
        .unwrap();
        let when = When::default();
        assert_eq!(
            rules,
            [
                What::Event(
                    Fault::Read { place: Some(Place { bar: 0, offset: Some(0x4c) }), how: Read::Stuck },
                    When { every: Some(3), ..when }
                ),
                What::Event(Fault::Write { place: Some(Place { bar: 4, offset: None }), twice: false }, when),
                What::Event(
                    Fault::Command { opcode: Some(10), how: CommandFault::Refuse(10) },
                    When { nth: Some(2), ..when }
                ),
                What::Event(
                    Fault::Read { place: Some(Place { bar: 2, offset: Some(16) }), how: Read::Value(32) },
                    when
                ),
            ]
        );
    }

    #[test]
    fn timed_rules_come_once_unless_repeated() {
        let ms = Duration::from_millis;
        let timing = Timing { after: ms(0), every: None, times: Some(1) };
        let down = TimedFault::State(State::Down, ms(50));
        assert_eq!(
            parse("link down for=50ms\nlink down for=50ms every=1s after=2ms\ncard reset times=3").unwrap(),
            [
                What::Timed(down, timing),
                What::Timed(down, Timing { after: ms(2), every: Some(ms(1000)), times: None }),
                What::Timed(TimedFault::Reset, Timing { times: Some(3), ..timing }),
            ]
        );
    }

    #[test]
    fn each_error_names_what_is_wrong() {
        for (rule, expected) in [
            ("disk fail", "line 1: \"disk\" is not a subject (interrupt, read, "),
            ("packet melt", "line 1: packet has no action \"melt\" (it has: drop, twice, "),
            ("\ndma", "line 2: dma has no action \"\" (it has: fail)"),
            (
                "dma fail vector=3",
                "line 1: \"vector=3\" is not one of the rule's keys with a value (page, access, ",
            ),
            (
                "dma fail nth=1 nth=2",
                "line 1: \"nth=2\" is not one of the rule's keys with a value (each once)",
            ),
            ("dma fail sometimes", "line 1: \"sometimes\" is not one of"),
            ("access delay", "line 1: the rule needs by="),
            ("access delay by=5", "line 1: by=5: a time of at most 3600s, as in 5ms (us, ms, s) is expected"),
            ("access delay by=3601s", "line 1: by=3601s: a time of at most 3600s"),
            ("dma fail chance=1.5", "line 1: chance=1.5: a number from 0 to 1 is expected"),
            ("dma fail every=0", "line 1: every=0: a number of at least 1 is expected"),
            ("interrupt drop vector=65536", "line 1: vector=65536: a number of at most 65535 is expected"),
            ("read ones at=NOTHING", "line 1: at=NOTHING: a register's name, BAR:OFFSET or BAR: is expected"),
            ("read ones at=6:", "line 1: at=6:: a register's name"),
            ("command refuse status=BAD", "line 1: status=BAD: a number, or a name such as OK, BAD_OPCODE, "),
            ("link down for=1s every=0ms", "line 1: every=0ms: a time of at least 1ms is expected"),
        ] {
            let error = parse(rule).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{rule}: {error}");
        }
        assert_eq!(parse(&"dma fail\n".repeat(65)), Err(RuleError::TooMany(65)));
    }
}
