//! The names that `--figure` accepts: the paper's figures, and topics.

use crate::hamlyn::figures::Name;

/// A measurement in addition to the paper's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    /// Goals 1 to 6: between two machines.
    Machines,
    /// Goal 7: with unused objects.
    Scale,
    /// Every process to every other.
    AllToAll,
    /// Goal 8: on the host, compared with other libraries there.
    Host,
    /// Goal 9: the components of a card alone, and the library's instructions.
    Parts,
    /// Table 4: the card without the library, and the components of a message's time.
    Table4,
    /// A whole program: the key-value server, over the card and over TCP.
    Server,
}

impl Topic {
    /// The topics with goals.
    pub(crate) const GOALS: [Topic; 4] = [Topic::Machines, Topic::Scale, Topic::Host, Topic::Parts];
    /// The topics with a name for the command line.
    pub(crate) const NAMED: [(&'static str, Topic); 7] = [
        ("machines", Topic::Machines),
        ("scale", Topic::Scale),
        ("all-to-all", Topic::AllToAll),
        ("host", Topic::Host),
        ("parts", Topic::Parts),
        ("table-4", Topic::Table4),
        ("server", Topic::Server),
    ];
}

/// An argument of `--figure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Paper(Name),
    Topic(Topic),
}

fn choice(text: &str) -> Result<Choice, String> {
    let topic = Topic::NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, topic)| topic);
    let number = text.parse().ok().and_then(Name::from_number);
    topic.map(Choice::Topic).or(number.map(Choice::Paper)).ok_or_else(|| {
        let names = Topic::NAMED.map(|(name, _)| name).join(", ");
        format!("the paper has no measured figure {text} (there are 7, 8, 9 and 10; beside them {names})")
    })
}

/// Fails if there is no such figure or topic.
pub(crate) fn check(text: &str) -> Result<(), String> {
    choice(text).map(drop)
}

/// Returns the paper's figures and the topics for names that have been checked. No names: all.
pub(crate) fn wanted(names: &[String], goals_only: bool) -> (Vec<Name>, Vec<Topic>) {
    let all = !goals_only && names.is_empty();
    let mut figures = if all { Name::ALL.to_vec() } else { Vec::new() };
    let mut topics = if all || goals_only { Topic::GOALS.to_vec() } else { Vec::new() };
    if all {
        topics.extend([Topic::AllToAll, Topic::Table4, Topic::Server]);
    }
    for choice in names.iter().filter_map(|name| choice(name).ok()) {
        match choice {
            Choice::Paper(name) => figures.push(name),
            Choice::Topic(topic) => topics.push(topic),
        }
    }
    (figures, topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_and_topics_are_found_by_name() {
        assert!(check("11").unwrap_err().contains("there are 7, 8, 9 and 10"));
        assert_eq!(choice("7"), Ok(Choice::Paper(Name::Seven)));
        assert_eq!(choice("parts"), Ok(Choice::Topic(Topic::Parts)));
        assert_eq!(wanted(&["table-4".to_owned()], false), (Vec::new(), vec![Topic::Table4]));
        assert_eq!(wanted(&[], true), (Vec::new(), Topic::GOALS.to_vec()));
        let (figures, topics) = wanted(&[], false);
        assert!(figures == Name::ALL && topics.contains(&Topic::Server));
    }
}
