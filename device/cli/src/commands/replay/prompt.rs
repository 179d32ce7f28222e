//! A replay that stops, and takes commands.

use std::io::{BufRead, Read, Stdout, Write, stdin, stdout};

use anyhow::Context;
use hamlyn_trace::text;

use super::calls::{Made, Replay};
use super::describe;

const HELP: &str = "\
s [N]            make the next call, or the next N
c                go on to the next breakpoint, or to the end
b [WORD]         stop after calls in which an event's text has this word; without one, list them
d WORD           delete that breakpoint
back [N]         go back one call, or N
goto CALL        go to a call, by its number
counters         the card's counters that are not 0
m ADDRESS [N]    N bytes of the machine's memory, as far as the card has seen it (64)
h                this
q                end
An empty line repeats the last s or c.";

/// Bytes of a line; the rest of a longer one is another line.
const LONGEST_LINE: u64 = 4096;
/// Most bytes of memory that are shown.
const MOST_MEMORY: usize = 4096;

/// What a line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Command {
    Step(u64),
    Continue,
    Break(Option<String>),
    Delete(String),
    Back(u64),
    Goto(u64),
    Counters,
    Memory(u64, usize),
    Help,
    Quit,
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x");
    let parsed = digits.map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
    parsed.map_err(|_| format!("{text} is not a number"))
}

fn parse(line: &str) -> Result<Command, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = |text: Option<&&str>| text.map_or(Ok(1), |text| number(text));
    Ok(match words[..] {
        ["s" | "step", ref rest @ ..] if rest.len() < 2 => Command::Step(count(rest.first())?),
        ["c" | "continue"] => Command::Continue,
        ["b" | "break", ref word @ ..] => {
            Command::Break(Some(word.join(" ")).filter(|word| !word.is_empty()))
        }
        ["d" | "delete", ref word @ ..] if !word.is_empty() => Command::Delete(word.join(" ")),
        ["back", ref rest @ ..] if rest.len() < 2 => Command::Back(count(rest.first())?),
        ["goto", call] => Command::Goto(number(call)?),
        ["counters"] => Command::Counters,
        ["m" | "memory", address] => Command::Memory(number(address)?, 64),
        ["m" | "memory", address, length] => {
            let length = usize::try_from(number(length)?).unwrap_or(usize::MAX);
            if length > MOST_MEMORY {
                return Err(format!("{length} bytes are too many (limit {MOST_MEMORY})"));
            }
            Command::Memory(number(address)?, length)
        }
        ["h" | "help" | "?"] => Command::Help,
        ["q" | "quit"] => Command::Quit,
        _ => return Err(format!("{:?} is not a command; h shows them", line.trim_end())),
    })
}

/// Runs a replay to its breakpoints, and takes commands from standard input.
pub(super) fn run(replay: &mut Replay, breaks: &[String], steps: bool, until: u64) -> anyhow::Result<()> {
    let mut prompt = Prompt { replay, out: stdout(), breaks: breaks.to_vec(), until };
    let mut next = Ok(if steps { Command::Step(1) } else { Command::Continue });
    let mut repeated = Command::Step(1);
    let mut input = stdin().lock();
    loop {
        match &next {
            Ok(Command::Quit) => return Ok(()),
            Ok(command) => prompt.carry_out(command)?,
            Err(error) => writeln!(prompt.out, "{error}")?,
        }
        write!(prompt.out, "({} call {}) ", prompt.replay.card().name, prompt.replay.number())?;
        prompt.out.flush()?;
        let mut line = String::new();
        let read = input.by_ref().take(LONGEST_LINE).read_line(&mut line);
        if read.context("cannot read standard input")? == 0 {
            return Ok(writeln!(prompt.out)?);
        }
        if let Ok(command @ (Command::Step(_) | Command::Continue)) = &next {
            repeated = command.clone();
        }
        next = if line.trim().is_empty() { Ok(repeated.clone()) } else { parse(&line) };
    }
}

struct Prompt<'a> {
    replay: &'a mut Replay,
    out: Stdout,
    breaks: Vec<String>,
    until: u64,
}

impl Prompt<'_> {
    fn carry_out(&mut self, command: &Command) -> anyhow::Result<()> {
        match command {
            Command::Step(count) => {
                for _ in 0..*count {
                    match self.step()? {
                        Some(made) => self.show(&made)?,
                        None => break,
                    }
                }
            }
            Command::Continue => {
                while let Some(made) = self.step()? {
                    if self.is_break(&made) || !made.differences.is_empty() {
                        self.show(&made)?;
                        break;
                    }
                }
            }
            Command::Break(Some(word)) => self.breaks.push(word.clone()),
            Command::Break(None) => {
                self.breaks.iter().try_for_each(|word| writeln!(self.out, "break {word}"))?;
            }
            Command::Delete(word) => self.breaks.retain(|known| known != word),
            Command::Back(count) => self.go_to(self.replay.number().saturating_sub(*count))?,
            Command::Goto(call) => self.go_to(*call)?,
            Command::Counters => {
                let counters = self.replay.player().card().counters();
                for (name, count) in counters.iter().filter(|(_, count)| *count != 0) {
                    writeln!(self.out, "{name:<32} {count}")?;
                }
            }
            Command::Memory(address, length) => {
                let bytes = self.replay.player().memory(*address, *length);
                for (line, bytes) in bytes.chunks(16).enumerate() {
                    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                    let at = address.wrapping_add(line as u64 * 16);
                    writeln!(self.out, "{at:#014x}  {}", hex.join(" "))?;
                }
            }
            Command::Help => writeln!(self.out, "{HELP}")?,
            Command::Quit => {}
        }
        Ok(())
    }

    fn step(&mut self) -> anyhow::Result<Option<Made>> {
        let made = if self.replay.number() < self.until { self.replay.step()? } else { None };
        if made.is_none() {
            writeln!(self.out, "the recording ends here")?;
        }
        Ok(made)
    }

    /// Goes to a call by its number: the card does again all that was before it.
    fn go_to(&mut self, call: u64) -> anyhow::Result<()> {
        if call < self.replay.number() {
            *self.replay = Replay::open(self.replay.path())?;
        }
        let mut last = None;
        while self.replay.number() < call {
            let Some(made) = self.step()? else { break };
            last = Some(made);
        }
        last.map_or(Ok(()), |made| self.show(&made))
    }

    fn lines<'m>(&self, made: &'m Made) -> impl Iterator<Item = String> + use<'m> {
        let (start, card) = (self.replay.start(), self.replay.card().name.clone());
        made.events.iter().filter_map(move |event| text::line(event, &card, start))
    }

    fn is_break(&self, made: &Made) -> bool {
        self.lines(made).any(|line| self.breaks.iter().any(|word| line.contains(word.as_str())))
    }

    fn show(&mut self, made: &Made) -> anyhow::Result<()> {
        let lines: Vec<String> = self.lines(made).collect();
        if lines.is_empty() {
            writeln!(self.out, "call {}: {}", made.call.number, made.call.step)?;
        }
        lines.iter().try_for_each(|line| writeln!(self.out, "{line}"))?;
        if !made.differences.is_empty() {
            writeln!(self.out, "{}", describe(self.replay, made))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_parsed_as_commands() {
        assert_eq!(parse("s"), Ok(Command::Step(1)));
        assert_eq!(parse(" step 20 "), Ok(Command::Step(20)));
        assert_eq!(parse("b COMMAND_GO = 1"), Ok(Command::Break(Some("COMMAND_GO = 1".into()))));
        assert_eq!(parse("m 0x1000 32"), Ok(Command::Memory(4096, 32)));
        assert_eq!(parse("back 3"), Ok(Command::Back(3)));
        assert_eq!(parse("goto x"), Err("x is not a number".into()));
        assert_eq!(parse("m 0 5000"), Err("5000 bytes are too many (limit 4096)".into()));
        assert!(parse("jump").unwrap_err().contains("is not a command"));
    }
}
