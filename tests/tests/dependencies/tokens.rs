//! The words of a Rust source, without comments and literals.

/// A word or sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Name(&'a str),
    /// Two colons.
    Colons,
    Sign(char),
}

impl Token<'_> {
    pub(crate) fn name(&self) -> Option<String> {
        if let Token::Name(name) = self { Some((*name).to_owned()) } else { None }
    }
}

/// Returns the words and signs of a source.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let length = match letter {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => 1 + string(&rest[1..]),
            '\'' => character(rest),
            'r' if rest.starts_with("r\"") || rest.starts_with("r#\"") => raw_string(rest),
            ':' if rest.starts_with("::") => {
                found.push(Token::Colons);
                2
            }
            letter if is_part(letter) => {
                let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                found.push(Token::Name(&rest[..end]));
                end
            }
            letter => {
                if !letter.is_whitespace() {
                    found.push(Token::Sign(letter));
                }
                letter.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    found
}

/// Returns the length of a string behind its first quote.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return at + 1,
            letter => escaped = letter == '\\' && !escaped,
        }
    }
    text.len()
}

/// Returns the length of a raw string.
fn raw_string(text: &str) -> usize {
    let end = if text.starts_with("r#") { "\"#" } else { "\"" };
    let begin = text.find('"').map_or(text.len(), |at| at + 1);
    text[begin..].find(end).map_or(text.len(), |at| begin + at + end.len())
}

/// Returns the length of a character, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let inner = &text[1..];
    let length = match inner.chars().next() {
        Some('\\') => inner[1..].chars().next().map_or(0, char::len_utf8) + 1,
        Some(letter) => letter.len_utf8(),
        None => 0,
    };
    if inner[length..].starts_with('\'') {
        length + 2
    } else if inner.starts_with('\\') {
        // A number in hexadecimal.
        inner.find('\'').map_or(text.len(), |at| at + 2)
    } else {
        1
    }
}

#[test]
fn comments_and_literals_are_left_out() {
    let text = "use a::b; // c::d\nlet x = ('\"', \"e::\\\"f\", r#\"g\"#, '\\u{1}', &'a h);";
    let names: Vec<_> = tokens(text).iter().filter_map(Token::name).collect();
    assert_eq!(names, ["use", "a", "b", "let", "x", "a", "h"]);
    assert!(tokens(text).starts_with(&[Token::Name("use"), Token::Name("a"), Token::Colons]));
}
