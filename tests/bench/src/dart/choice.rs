//! The names that `--figure` accepts.

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Goal 15: a deposit of 32 bytes.
    Deposits,
    /// Goal 16: questions that a card answers.
    Questions,
    /// Barriers of 2 to 16.
    Barriers,
    /// Goal 17: the cost of a message to the receiving host.
    Filtering,
    /// Reads of present and absent pages.
    Paging,
    /// One-way bandwidth.
    Blocks,
    /// The cards alone.
    Alone,
}

const ALL: [(&str, Topic); 7] = [
    ("deposits", Topic::Deposits),
    ("questions", Topic::Questions),
    ("barriers", Topic::Barriers),
    ("filtering", Topic::Filtering),
    ("paging", Topic::Paging),
    ("blocks", Topic::Blocks),
    ("alone", Topic::Alone),
];

/// The topics that goals are about.
const GOALS: [Topic; 3] = [Topic::Deposits, Topic::Questions, Topic::Filtering];

fn topic(text: &str) -> Option<Topic> {
    ALL.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic)
}

/// Fails if there is no such topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    topic(text).map(drop).ok_or_else(|| format!("nothing of DART's is called so (there are {})", names()))
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
        assert!(check("7").unwrap_err().contains("(there are deposits, questions, "));
        assert!(ALL.iter().all(|(name, _)| check(name).is_ok()));
        assert_eq!(wanted(&["paging".to_owned()], false), [Topic::Paging]);
        assert_eq!(wanted(&[], true), GOALS);
        assert_eq!(wanted(&[], false).len(), ALL.len());
    }
}
