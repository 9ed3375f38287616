//! What adapters of text share: escape sequences of terminals are no part of it.

use std::borrow::Cow;

/// The text without the sequences that colour it.
pub(super) fn without_colors(text: &str) -> Cow<'_, str> {
    if memchr::memchr(0x1b, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // CSI: parameters, then one letter. Anything else: the escape alone goes.
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go() {
        let check = |text, expected: &str| assert_eq!(without_colors(text), expected);
        check("plain", "plain");
        check("\u{1b}[1;32mgreen\u{1b}[0m!", "green!");
        check("\u{1b}7a", "7a");
        check("a\u{1b}[", "a");
    }
}
