//! String literals of sources in Rust and C.

/// Returns the string literals of a source, each with the number of its line. Line continuations
/// are joined, and escapes are blanks.
pub(crate) fn literals(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut rest, mut before, mut number) = (source, ' ', 1);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '\'' => character(rest),
            '"' => {
                let length = quoted(&rest[1..]) + 1;
                let text = rest[1..length].strip_suffix('"').unwrap_or(&rest[1..]);
                found.push((number, unescaped(text)));
                length
            }
            'r' if !is_word(before) || before == 'b' => match raw(rest) {
                Some((start, end, length)) => {
                    found.push((number, rest[start..end].to_owned()));
                    length
                }
                None => 1,
            },
            _ => first.len_utf8(),
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        number += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the length of a character's literal, or 1 for the start of a lifetime.
fn character(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        // The escaped character may be a quote itself.
        (Some((_, '\\')), Some((at, letter))) => {
            let inside = at + letter.len_utf8();
            text[inside..].find('\'').map_or(1, |end| inside + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

/// Returns the length of a string up to its closing quote, with it.
fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '"' if !escaped => return at + 1,
            _ => escaped = letter == '\\' && !escaped,
        }
    }
    text.len()
}

/// Returns where a raw string's text starts and ends, and the length of all of it.
fn raw(text: &str) -> Option<(usize, usize, usize)> {
    let hashes = text[1..].chars().take_while(|letter| *letter == '#').count();
    let start = 1 + hashes + text[1 + hashes..].starts_with('"').then_some(1)?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let end = start + text[start..].find(&closing)?;
    Some((start, end, end + closing.len()))
}

/// Returns a literal's text as one line.
fn unescaped(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
        } else if letters.next() == Some('\n') {
            while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        } else {
            plain.push(' ');
        }
    }
    plain
}

#[test]
fn literals_are_told_from_code() {
    let source = concat!(
        "// \"a comment\"\n",
        "let c = '\"'; /* \"another\" */\n",
        "say(\"one \\\n     line\", b\"by\\\"te\", '\\'', 'a', r#\"raw \"it\\\" is\"#);\n",
        "fn f<'a>(x: &'a str) -> &'a str { \"end\" }\n",
        "let for_ = for\"\";",
    );
    let found = literals(source);
    let expected = [(3, "one line"), (4, "by te"), (4, "raw \"it\\\" is"), (5, "end"), (6, "")]
        .map(|(line, text)| (line, text.to_owned()));
    assert_eq!(found, expected);
}
