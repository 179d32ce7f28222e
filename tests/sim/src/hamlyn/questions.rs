//! Programs that ask whether a process listens to a name. The answer of a host must have been true
//! at some moment since the question.

use hamlyn::Answer;

use crate::engine::violation::{Violation, ensure};
use crate::hamlyn::around::Around;
use crate::hamlyn::connections::Connections;
use crate::hamlyn::correspondent::{NAMES, Wondering};
use crate::hamlyn::world::Host;

/// Maximum number of questions of a program.
const MOST: usize = 3;

/// Asks for names, as programs.
pub(super) struct Asker<'a> {
    pub(super) around: Around<'a>,
    pub(super) connections: &'a mut Connections,
}

impl Asker<'_> {
    /// Asks a host of the fabric, or rarely one that does not exist, whether a process listens to a
    /// name.
    pub(super) fn wonder(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let hosts = self.around.hosts.len();
        let absent = self.around.scenario.faults > 0 && self.around.rng.percent(2);
        let target = if absent { hosts } else { self.around.rng.index(hosts) };
        let name = self.around.rng.pick(&NAMES).unwrap_or(NAMES[0]);
        let asked = self.around.now;
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        if program.wondering.len() >= MOST {
            return Ok(false);
        }
        let question = match program.manager.card().ask(target as u32, name) {
            Ok(question) => question,
            // The link is down.
            Err(_) if !self.around.hosts[host].uplink.is_up() => return Ok(false),
            Err(error) => return Err(Violation::new(format!("host {host} cannot ask: {error}"))),
        };
        program.wondering.push(Wondering { name: name.to_owned(), asked, question });
        self.around.note(|| format!("host {host} asks host {target} for {name}"));
        Ok(true)
    }

    /// Checks whether questions of a program were answered. Rarely, the program drops a question.
    pub(super) fn look_at_answers(&mut self, host: usize, process: usize) -> Result<bool, Violation> {
        let bored = self.around.rng.percent(2);
        let Some(program) = self.around.hosts[host].correspondent_mut(process) else { return Ok(false) };
        if bored && program.wondering.pop().is_some() {
            return Ok(true);
        }
        let decided = |wondering: &Wondering| !matches!(wondering.question.answer(), Ok(None));
        let Some(index) = program.wondering.iter().position(decided) else { return Ok(false) };
        let Wondering { name, asked, question } = program.wondering.swap_remove(index);
        // A failure of its own host is not an answer.
        let Ok(Some(answer)) = question.answer() else { return Ok(true) };
        let target = question.host() as usize;
        let answers = &mut self.connections.answers;
        let is_right = match answer {
            Answer::Listening => {
                answers.listening += 1;
                self.connections.was_there_after(target, &name, asked)
            }
            Answer::NotListening => {
                answers.not_listening += 1;
                !self.connections.was_there_since(target, &name, asked)
            }
            Answer::Silent => {
                answers.silent += 1;
                true
            }
            _ => false,
        };
        ensure(is_right, || {
            format!("host {host} gets a wrong answer about {name} on host {target}: {answer:?}")
        })?;
        self.around.note(|| format!("host {host} gets an answer about {name} on host {target}: {answer:?}"));
        Ok(true)
    }
}

/// Checks that no program waits for an answer.
pub(super) fn check_at_rest(hosts: &[Host]) -> Result<(), Violation> {
    for host in hosts {
        let open = host.processes.iter().filter_map(|process| process.correspondent());
        let open: Vec<_> = open.flat_map(|program| &program.wondering).collect();
        ensure(open.is_empty(), || format!("host {}: questions were not answered: {open:?}", host.id))?;
    }
    Ok(())
}
