//! Names of labs and of their machines.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use serde::Serialize;

/// A name of a lab or a machine. It is part of file names and of the guest's host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Name(String);

impl Name {
    /// Longest name, in bytes. Paths of sockets contain it.
    pub const LONGEST: usize = 20;

    /// Returns the default name of the machine with this index.
    pub(super) fn of_machine(index: usize) -> Name {
        Name(format!("vm{index}"))
    }

    /// Returns its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether the lab's own processes have logs of this name.
fn is_taken(name: &str) -> bool {
    let is_number = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit());
    matches!(name, "switch" | "fabric") || name.strip_prefix("card").is_some_and(is_number)
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Name, String> {
        let is_good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !text.starts_with(|first: char| first.is_ascii_lowercase()) || !text.bytes().all(is_good) {
            return Err(format!("{text:?} is not a name: a small letter, then small letters, digits and -"));
        }
        if text.len() > Name::LONGEST {
            return Err(format!("the name {text:?} has {} letters (limit {})", text.len(), Name::LONGEST));
        }
        if is_taken(text) {
            return Err(format!("the name {text:?} is that of a process of the lab"));
        }
        Ok(Name(text.to_owned()))
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_files_and_hosts() {
        let error = |text: &str| text.parse::<Name>().unwrap_err();
        for good in ["a", "vm0", "redis-server", "cardinal", &"x".repeat(Name::LONGEST)] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        for wrong in ["", "0a", "-a", "A", "a.b", "a/b", "ü"] {
            assert!(error(wrong).contains("is not a name"), "{wrong:?}");
        }
        assert!(error(&"x".repeat(21)).ends_with("has 21 letters (limit 20)"));
        for taken in ["switch", "fabric", "card0", "card12"] {
            assert!(error(taken).contains("of a process of the lab"), "{taken}");
        }
        assert_eq!(Name::of_machine(3).as_str(), "vm3");
    }
}
