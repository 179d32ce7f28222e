//! Users on the command line.

use std::fs;

/// Returns a user's number, from the number or from a name in `/etc/passwd`.
pub(crate) fn parse(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    number_of(text, &passwd)
        .ok_or_else(|| format!("there is no user {text} in /etc/passwd (a number is good, too)"))
}

fn number_of(name: &str, passwd: &str) -> Option<u32> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_number_or_a_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!((number_of("ann", passwd), number_of("an", passwd)), (Some(1000), None));
        assert_eq!((parse("1234"), parse("root")), (Ok(1234), Ok(0)));
        assert!(parse("no such user").unwrap_err().contains("there is no user no such user"));
    }
}
