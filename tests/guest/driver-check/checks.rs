//! The results of the checks.

use std::io;

use rustix::io::Errno;
use serde_json::json;

use crate::common::{Outcome, print};

#[derive(Default)]
pub(crate) struct Checks {
    pub(crate) count: u32,
    pub(crate) failed: u32,
}

impl Checks {
    pub(crate) fn note(&mut self, check: &str, passed: bool, found: &str) -> Outcome {
        self.count += 1;
        self.failed += u32::from(!passed);
        if passed {
            print(&json!({ "check": check, "passed": true }))
        } else {
            print(&json!({ "check": check, "passed": false, "found": found }))
        }
    }

    pub(crate) fn holds(&mut self, check: &str, passed: bool) -> Outcome {
        self.note(check, passed, "not so")
    }

    /// Records that the call must succeed.
    pub(crate) fn done<T>(&mut self, check: &str, result: io::Result<T>) -> Outcome {
        self.note(check, result.is_ok(), &result.err().map(|error| error.to_string()).unwrap_or_default())
    }

    /// Records that the call must fail with exactly this error.
    pub(crate) fn refused<T>(&mut self, check: &str, result: io::Result<T>, expected: Errno) -> Outcome {
        let expected = io::Error::from(expected).to_string();
        let found = result.err().map_or_else(|| "done".to_owned(), |error| error.to_string());
        self.note(&format!("{check}: {expected}"), found == expected, &found)
    }
}

/// A change that makes an argument invalid, and the error it must cause.
pub(crate) type Spoil<T> = (&'static str, fn(&mut T), Errno);

/// Makes a call once for each way to make its argument invalid.
pub(crate) fn spoilt<T: Clone>(
    checks: &mut Checks,
    call: &str,
    good: &T,
    ways: &[Spoil<T>],
    make: impl Fn(&mut T) -> io::Result<()>,
) -> Outcome {
    for (what, spoil, error) in ways {
        let mut argument = good.clone();
        spoil(&mut argument);
        checks.refused(&format!("{call}, {what}"), make(&mut argument), *error)?;
    }
    Ok(())
}
