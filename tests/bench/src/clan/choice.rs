//! The names that `--figure` accepts.

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Goal 11: a word's round trip, and a load across the network.
    Words,
    /// Goals 12 and 13: the event-driven server's round trip.
    Server,
    /// Requests a second.
    Requests,
    /// Reused endpoints.
    Endpoints,
    /// Raw bandwidth.
    Raw,
    /// One-way bandwidth by the size of messages.
    Transfers,
    /// The benefit of joining.
    Joining,
    /// The benefit of a wake-up by a message's first word.
    Early,
    /// Goal 14: the cost of an access that passes armed Tripwires.
    Watched,
}

const ALL: [(&str, Topic); 9] = [
    ("words", Topic::Words),
    ("server", Topic::Server),
    ("requests", Topic::Requests),
    ("endpoints", Topic::Endpoints),
    ("raw", Topic::Raw),
    ("transfers", Topic::Transfers),
    ("joining", Topic::Joining),
    ("early", Topic::Early),
    ("watched", Topic::Watched),
];

/// The topics that goals are about.
const GOALS: [Topic; 3] = [Topic::Words, Topic::Server, Topic::Watched];

fn topic(text: &str) -> Option<Topic> {
    ALL.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic)
}

/// Fails if there is no such topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    topic(text).map(drop).ok_or_else(|| format!("nothing of CLAN's is called so (there are {})", names()))
}

/// Returns the topics for names that have been checked. No names: all topics.
pub(crate) fn wanted(names: &[String], goals_only: bool) -> Vec<Topic> {
    match names {
        [] if goals_only => GOALS.to_vec(),
        [] => ALL.map(|(_, topic)| topic).to_vec(),
        names => names.iter().filter_map(|name| topic(name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_by_name() {
        assert!(check("7").unwrap_err().contains("(there are words, server, "));
        assert!(ALL.iter().all(|(name, _)| check(name).is_ok()));
        assert_eq!(wanted(&["watched".to_owned()], false), [Topic::Watched]);
        assert_eq!(wanted(&[], true), GOALS);
        assert_eq!(wanted(&[], false).len(), ALL.len());
    }
}
