//! The names that `--figure` accepts.

/// A measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Goals 18 and 21: round trips.
    Trips,
    /// Goals 19 and 20: messages one way.
    Streams,
    /// Goal 22: a sleeping program costs nothing.
    Idle,
}

const ALL: [(&str, Topic); 3] = [("trips", Topic::Trips), ("streams", Topic::Streams), ("idle", Topic::Idle)];

fn topic(text: &str) -> Option<Topic> {
    ALL.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic)
}

/// Fails if there is no such topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    topic(text).map(drop).ok_or_else(|| format!("nothing of channels is called so (there are {})", names()))
}

/// Returns the topics for names that have been checked. No names: all topics.
pub(crate) fn wanted(names: &[String]) -> Vec<Topic> {
    match names {
        [] => ALL.map(|(_, topic)| topic).to_vec(),
        names => names.iter().filter_map(|name| topic(name)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_found_by_name() {
        assert!(check("7").unwrap_err().contains("(there are trips, streams, idle)"));
        assert_eq!(wanted(&["idle".to_owned()]), [Topic::Idle]);
        assert_eq!(wanted(&[]).len(), ALL.len());
    }
}
