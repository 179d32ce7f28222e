//! Threads of the guest that wait in its kernel, and do not run again.

use std::collections::BTreeMap;
use std::fmt;

/// Shell line for root. It prints what the kernel shows of each thread.
pub(super) const LIST: &str = "cd /proc && head -n 100 [0-9]*/task/[0-9]*/stat [0-9]*/task/[0-9]*/status \
    [0-9]*/task/[0-9]*/wchan [0-9]*/task/[0-9]*/stack 2>/dev/null; true";

/// The files that `head` has printed, by their paths.
pub(super) type Files<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// Parses the output of `head` about several files.
pub(super) fn files(lines: &[String]) -> Files<'_> {
    let mut files = Files::new();
    let mut path = "";
    for line in lines {
        match line.strip_prefix("==> ").and_then(|line| line.strip_suffix(" <==")) {
            Some(next) => path = next,
            // An empty line is before each title.
            None if line.is_empty() => {}
            None => files.entry(path).or_default().push(line),
        }
    }
    files
}

/// A thread of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// The paths of its process and thread below `/proc`: `7/task/8`.
    path: String,
    name: String,
    /// The kernel's letter: D waits and takes no signal, or only a deadly one.
    state: char,
    group: u32,
    /// How often it has stopped running.
    switches: String,
    waits_in: String,
    stack: Vec<String>,
}

/// Parses the output of [`LIST`]. Threads that end meanwhile are left out.
pub(super) fn tasks(lines: &[String]) -> Vec<Task> {
    let files = files(lines);
    let stats = files.iter().filter_map(|(path, lines)| Some((path.strip_suffix("/stat")?, *lines.first()?)));
    stats.filter_map(|(path, stat)| task(&files, path, stat)).collect()
}

fn task(files: &Files<'_>, path: &str, stat: &str) -> Option<Task> {
    let file = |name: &str| files.get(format!("{path}/{name}").as_str()).map_or(&[][..], Vec::as_slice);
    // A name may contain brackets and spaces.
    let (start, end) = (stat.find('(')?, stat.rfind(')')?);
    let mut fields = stat.get(end + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    let switches = file("status").iter().filter(|line| line.contains("ctxt_switches"));
    Some(Task {
        path: path.to_owned(),
        name: stat.get(start + 1..end)?.to_owned(),
        state,
        group,
        switches: switches.copied().collect(),
        waits_in: file("wchan").concat(),
        stack: file("stack").iter().map(|line| (*line).to_owned()).collect(),
    })
}

/// Returns the threads that wait in the kernel and have not run between two lists: those in state
/// D, and with `all` also those of process group `group` that wait for a signal or an event. The
/// threads of that group come first.
pub(super) fn stuck(before: &[Task], after: &[Task], group: u32, all: bool) -> Vec<Task> {
    let waits = |task: &&Task| task.state == 'D' || (all && task.group == group && task.state == 'S');
    let mut stuck: Vec<Task> =
        after.iter().filter(waits).filter(|task| before.contains(task)).cloned().collect();
    stuck.sort_by_key(|task| task.group != group);
    stuck
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (process, thread) = self.path.split_once("/task/").unwrap_or((&self.path, ""));
        let (name, state) = (&self.name, self.state);
        write!(f, "  {name} (process {process}, thread {thread}), state {state}, in {}", self.waits_in)?;
        self.stack.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(tasks: &[(&str, &str, u32, u32)]) -> Vec<Task> {
        let mut text = String::new();
        for (path, stat, group, switches) in tasks {
            let process = path.split('/').next().unwrap();
            text += &format!("==> {path}/stat <==\n{process} {stat} 1 {group} 0 -1\n\n");
            text += &format!("==> {path}/status <==\nName:\tx\nvoluntary_ctxt_switches:\t{switches}\n");
            text += &format!("nonvoluntary_ctxt_switches:\t0\n\n==> {path}/wchan <==\nlock_it\n");
            text += &format!("==> {path}/stack <==\n[<0>] lock_it+0x1/0x2\n[<0>] call+0x3/0x4\n\n");
        }
        super::tasks(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn thread_that_waits_is_shown_with_its_stack() {
        let tasks = list(&[("7/task/8", "(a (b) c) D", 7, 3)]);
        assert_eq!(
            tasks[0].to_string(),
            "  a (b) c (process 7, thread 8), state D, in lock_it\n    [<0>] lock_it+0x1/0x2\n    [<0>] call+0x3/0x4"
        );
        assert!(super::tasks(&["==> 7/task/7/stat <==".into(), "7 (torn".into()]).is_empty());
    }

    #[test]
    fn only_threads_that_do_not_run_are_stuck() {
        let names = |before: &[_], after: &[_], all| {
            let stuck = stuck(&list(before), &list(after), 7, all);
            stuck.into_iter().map(|task| task.name).collect::<Vec<_>>()
        };
        let before = [
            ("7/task/7", "(ours) S", 7, 1),
            ("7/task/8", "(runs) R", 7, 1),
            ("7/task/9", "(wakes) S", 7, 1),
            ("20/task/20", "(kworker) D", 0, 5),
            ("21/task/21", "(disk) D", 0, 5),
            ("30/task/30", "(shell) S", 30, 1),
        ];
        let mut after = before;
        (after[2].3, after[4].3) = (2, 6);
        assert_eq!(names(&before, &after, false), ["kworker"]);
        assert_eq!(names(&before, &after, true), ["ours", "kworker"]);
        assert!(names(&[], &after, true).is_empty(), "a thread that has just started");
    }
}
