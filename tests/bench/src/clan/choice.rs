//! What `--figure` may name.

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// What an access costs that passes armed Tripwires.
    Watched,
}

const ALL: [(&str, Topic); 1] = [("watched", Topic::Watched)];

fn topic(text: &str) -> Option<Topic> {
    ALL.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic)
}

/// Fails if there is no such topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let names = || ALL.map(|(name, _)| name).join(", ");
    topic(text).map(drop).ok_or_else(|| format!("nothing of CLAN's is called so (there are {})", names()))
}

/// What is measured, for names that have been checked. None: all.
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
    fn what_is_wanted_is_found_by_its_name() {
        assert!(check("7").unwrap_err().ends_with("(there are watched)"));
        assert!(ALL.iter().all(|(name, _)| check(name).is_ok()));
        assert_eq!(wanted(&["watched".to_owned()]), [Topic::Watched]);
        assert_eq!(wanted(&[]).len(), ALL.len());
    }
}
