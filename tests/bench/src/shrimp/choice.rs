//! The names that `--figure` accepts.

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Goal 10: a flag's round trip.
    Flags,
    /// Bandwidth of deliberate update.
    Updates,
    /// The benefit of merging.
    Stores,
    /// The cost of snooping to programs that do not communicate.
    Bystanders,
}

const ALL: [(&str, Topic); 4] = [
    ("flags", Topic::Flags),
    ("updates", Topic::Updates),
    ("stores", Topic::Stores),
    ("bystanders", Topic::Bystanders),
];

fn topic(text: &str) -> Option<Topic> {
    ALL.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic)
}

/// Fails if there is no such topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    topic(text).map(drop).ok_or_else(|| format!("nothing of SHRIMP's is called so (there are {})", names()))
}

/// Returns the topics for names that have been checked. No names: all topics.
pub(crate) fn wanted(names: &[String], goals_only: bool) -> Vec<Topic> {
    match names {
        [] if goals_only => vec![Topic::Flags],
        [] => ALL.map(|(_, topic)| topic).to_vec(),
        names => names.iter().filter_map(|name| topic(name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_by_name() {
        assert!(check("7").unwrap_err().ends_with("(there are flags, updates, stores, bystanders)"));
        assert!(ALL.iter().all(|(name, _)| check(name).is_ok()));
        assert_eq!(wanted(&["stores".to_owned()], false), [Topic::Stores]);
        assert_eq!(wanted(&[], true), [Topic::Flags]);
        assert_eq!(wanted(&[], false).len(), 4);
    }
}
