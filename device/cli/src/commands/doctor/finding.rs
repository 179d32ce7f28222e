//! A finding about one part of the host.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

/// Whether a part of the host does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Ok,
    /// Labs start, but something is slow, tight or left over.
    Warning,
    /// Labs do not start without it.
    Missing,
}

impl Display for State {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Missing => "missing",
        })
    }
}

/// A finding about one part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) part: &'static str,
    pub(super) state: State,
    pub(super) what: String,
    /// What to do about it.
    pub(super) next: Option<String>,
}

impl Finding {
    pub(super) fn ok(part: &'static str, what: impl Into<String>) -> Finding {
        Finding { part, state: State::Ok, what: what.into(), next: None }
    }

    pub(super) fn warning(part: &'static str, what: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding { part, state: State::Warning, what: what.into(), next: Some(next.into()) }
    }

    pub(super) fn missing(part: &'static str, what: impl Into<String>, next: impl Into<String>) -> Finding {
        Finding { part, state: State::Missing, what: what.into(), next: Some(next.into()) }
    }
}
