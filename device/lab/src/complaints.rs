//! Errors that a kernel reports in its log.

use crate::vm::MODULE;

/// Words by which a kernel reports that it has found an error or has lost a task.
pub const COMPLAINTS: [&str; 11] = [
    "BUG",
    "WARNING",
    "UBSAN",
    "Oops",
    "Call Trace",
    "hung_task",
    "blocked for more",
    "lockup",
    "Bad page",
    "stall",
    "suspected memory leaks",
];

/// A line of these characters precedes and follows a report of KASAN or KCSAN.
const RULER: &str = "==========";

/// The kernel's end of a timer. The kernel's own macros for waits with a time-out read plainly what
/// it writes, in the function that uses them.
const TIMER: &str = "hrtimer_wakeup";

/// Returns a kernel's log without the data races (KCSAN) of the kernel itself, which has many:
/// those in whose stacks the card's module does not occur, and those of its wait macros.
pub fn without_foreign_races(log: Vec<String>) -> Vec<String> {
    let module = format!("[{MODULE}");
    let (mut kept, mut report) = (Vec::with_capacity(log.len()), Vec::new());
    for line in log {
        let is_ruler = line.contains(RULER);
        if !is_ruler && report.is_empty() {
            kept.push(line);
            continue;
        }
        report.push(line);
        if is_ruler && report.len() > 1 {
            let has = |word: &str| report.iter().any(|line| line.contains(word));
            let is_of_macro = report.iter().any(|line| line.contains("data-race in") && line.contains(TIMER));
            let is_foreign = has("KCSAN") && (!has(&module) || is_of_macro);
            let ended = std::mem::take(&mut report);
            if !is_foreign {
                kept.extend(ended);
            }
        }
    }
    // A report without an end.
    kept.extend(report);
    kept
}

/// Returns the place of the first line that reports an error.
pub fn first_complaint(log: &[String]) -> Option<usize> {
    log.iter().position(|line| COMPLAINTS.iter().any(|word| line.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn races_without_the_module_are_left_out() {
        let foreign =
            "[1.0] ==========\n[1.0] BUG: KCSAN: data-race in a / b\n[1.0]  a+0x1/0x2\n[1.0] ==========\n";
        let own = "[2.0] ==========\n[2.0] BUG: KCSAN: data-race in c / d\n[2.0]  c+0x1/0x2 [hamlyn]\n[2.0] ==========\n";
        let of_macro = "[2.1] ==========\n[2.1] BUG: KCSAN: data-race in hrtimer_wakeup / c [hamlyn]\n[2.1] ==========\n";
        let other = "[3.0] ==========\n[3.0] BUG: KASAN: use-after-free in e\n[3.0] ==========\n";
        let cut = "[4.0] ==========\n[4.0] BUG: KCSAN: data-race in f / g\n";
        let all = format!("[0.0] boots\n{foreign}{own}{of_macro}[2.5] works\n{other}{foreign}{cut}");
        let kept = without_foreign_races(log(&all));
        assert_eq!(kept, log(&format!("[0.0] boots\n{own}[2.5] works\n{other}{cut}")));
        assert_eq!(first_complaint(&kept), Some(2));
        assert_eq!(first_complaint(&without_foreign_races(log(foreign))), None);
    }
}
