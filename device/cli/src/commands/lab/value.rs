//! Values of a lab file that are more than a number or a text.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use clap::ValueEnum;
use hamlyn_host::catalogue::{self, MODELS, Model, NoModel};
use hamlyn_lab::plain::plain;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::commands::layout::LayoutName;
use crate::commands::switch::Express;

/// For `#[serde(with = "text")]`: a value that is written as a text.
pub(super) mod text {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// The same for a value that may be missing.
pub(super) mod optional_text {
    use super::*;

    pub(in super::super) fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => serializer.collect_str(value),
            None => serializer.serialize_none(),
        }
    }

    pub(in super::super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        super::text::deserialize(deserializer).map(Some)
    }
}

/// Reads a number with limits.
pub(super) fn within<'de, D, T, const LEAST: u64, const MOST: u64>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u64>,
{
    let value = i64::deserialize(deserializer)?;
    let good = u64::try_from(value).ok().filter(|value| (LEAST..=MOST).contains(value));
    let good = good.and_then(|value| T::try_from(value).ok());
    good.ok_or_else(|| de::Error::custom(format!("{value} is out of range (limits {LEAST} and {MOST})")))
}

/// Defines how a word of the command line is written in a lab file: by the same name.
macro_rules! word {
    ($word:ident($of:ty), $name:literal) => {
        /// One of the words that the flag of this name takes.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub(in super::super) struct $word(pub(in super::super) $of);

        impl Display for $word {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let value = self.0.to_possible_value();
                f.write_str(value.as_ref().map_or("", |value| value.get_name()))
            }
        }

        impl FromStr for $word {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let found = <$of>::from_str(text, false);
                found.map($word).map_err(|_| format!("{text:?} is not one of: {}", words::<$of>().join(", ")))
            }
        }

        impl Serialize for $word {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                text::serialize(self, serializer)
            }
        }

        impl<'de> Deserialize<'de> for $word {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                text::deserialize(deserializer)
            }
        }

        impl JsonSchema for $word {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": words::<$of>() })
            }
        }
    };
}

word!(AccelWord(hamlyn_lab::Accel), "Accel");
word!(SnoopWord(hamlyn_lab::Snoop), "Snoop");
word!(VmmWord(hamlyn_lab::Vmm), "Vmm");
word!(ExpressWord(Express), "Express");
word!(LayoutWord(LayoutName), "Layout");
word!(UserWord(User), "User");

fn words<T: ValueEnum>() -> Vec<String> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// A user of a machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(in super::super) enum User {
    /// The administrator.
    #[default]
    Root,
    /// The first ordinary user.
    User1,
    /// The second ordinary user.
    User2,
}

impl User {
    /// Returns its number in a machine.
    pub(super) fn uid(self) -> u32 {
        match self {
            User::Root => 0,
            User::User1 => 1001,
            User::User2 => 1002,
        }
    }
}

/// A model's name.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct ModelName(pub(in super::super) &'static Model);

impl Default for ModelName {
    fn default() -> Self {
        ModelName(catalogue::default())
    }
}

impl FromStr for ModelName {
    type Err = NoModel;

    fn from_str(text: &str) -> Result<Self, NoModel> {
        catalogue::find(text).map(ModelName)
    }
}

impl Display for ModelName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

/// Returns the names of all models, for the schema.
pub(super) fn models() -> Vec<&'static str> {
    MODELS.iter().map(|model| model.name).collect()
}

/// A command: a list of words, or a text for the machine's shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Command(pub(super) Vec<String>);

impl Command {
    /// Largest length of a title, in characters.
    const TITLE: usize = 50;

    /// Returns its first line, or the start of it, for a title.
    pub(super) fn shortened(&self) -> String {
        let text = match &self.0[..] {
            [shell, flag, script] if shell == "sh" && flag == "-c" => script.clone(),
            words => words.join(" "),
        };
        let text = text.trim();
        let mut title: String = text.lines().next().unwrap_or_default().chars().take(Self::TITLE).collect();
        if title.len() < text.len() {
            title.push_str("...");
        }
        plain(&title)
    }
}

impl<'de> Deserialize<'de> for Command {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> Visitor<'de> for Words {
            type Value = Vec<String>;

            fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.write_str("a text for the shell, or a list of words")
            }

            fn visit_str<E: de::Error>(self, script: &str) -> Result<Vec<String>, E> {
                match script.trim().is_empty() {
                    true => Ok(Vec::new()),
                    false => Ok(["sh", "-c", script].map(str::to_owned).to_vec()),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = list.next_element()? {
                    words.push(word);
                }
                Ok(words)
            }
        }

        let words = deserializer.deserialize_any(Words)?;
        if words.is_empty() {
            return Err(de::Error::custom("the command is empty"));
        }
        Ok(Command(words))
    }
}

impl JsonSchema for Command {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Command".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words = serde_json::json!({ "type": "array", "items": { "type": "string" }, "minItems": 1 });
        json_schema!({ "anyOf": [{ "type": "string", "minLength": 1 }, words] })
    }
}

/// A file's mode, in octal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Mode(pub(super) u32);

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Mode, String> {
        let is_octal =
            (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        let mode = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
        mode.map(Mode).ok_or_else(|| format!("{text:?} is not a mode such as 0755 (limits 000 and 7777)"))
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:04o}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_commands_are_short() {
        let title = |words: &[&str]| Command(words.iter().map(ToString::to_string).collect()).shortened();
        assert_eq!(title(&["ping", "-c", "1"]), "ping -c 1");
        assert_eq!(title(&["sh", "-c", "\nexit 3\ntrue\n"]), "exit 3...");
        assert_eq!(title(&[&"x".repeat(51)]), "x".repeat(50) + "...");
        assert_eq!(title(&["\x1b[2J"]), "\\x1b[2J");
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!("755".parse(), Ok(Mode(0o755)));
        assert_eq!("4755".parse::<Mode>().unwrap().to_string(), "4755");
        for wrong in ["", "75", "0o755", "789", "77777", "+755"] {
            assert!(wrong.parse::<Mode>().unwrap_err().contains("(limits 000 and 7777)"), "{wrong}");
        }
    }

    #[test]
    fn words_are_those_of_the_flags() {
        assert_eq!("kvm".parse::<AccelWord>().unwrap().0, hamlyn_lab::Accel::Kvm);
        let error = "fast".parse::<AccelWord>().unwrap_err();
        assert_eq!(error, "\"fast\" is not one of: auto, tcg, kvm");
        assert_eq!(LayoutWord::default().to_string(), "auto");
    }
}
