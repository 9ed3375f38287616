//! Helpers of text adapters: removal of terminal escape sequences, and fast splitting.

use std::borrow::Cow;

pub(super) fn without_colors(text: &str) -> Cow<'_, str> {
    if memchr::memchr(0x1b, text.as_bytes()).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        // CSI: parameters, then one letter. Otherwise only the escape is removed.
        if let Some(sequence) = rest.strip_prefix('[') {
            let end = sequence.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c));
            rest = end.map_or("", |end| &sequence[end + 1..]);
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// Like [`str::split_once`], for a short separator in a short text. The standard library's search first builds tables,
/// which is too expensive for most lines.
pub(super) fn split_once<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let first = *separator.as_bytes().first()?;
    let is_here = |at: &usize| text.as_bytes()[*at..].starts_with(separator.as_bytes());
    let at = memchr::memchr_iter(first, text.as_bytes()).find(is_here)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

/// Like [`str::rsplit_once`], for a short separator in a short text.
pub(super) fn rsplit_once<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let first = *separator.as_bytes().first()?;
    let is_here = |at: &usize| text.as_bytes()[*at..].starts_with(separator.as_bytes());
    let at = memchr::memrchr_iter(first, text.as_bytes()).find(is_here)?;
    Some((&text[..at], &text[at + separator.len()..]))
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

    #[test]
    fn separators_as_the_standard_library_finds_them() {
        for text in ["", "a", ": ", "a: b", "a:: b: c", "::::", "größe ±1 ±2%", "±", "a ± "] {
            for separator in [": ", "::", " ±", "±", "a", "%"] {
                assert_eq!(split_once(text, separator), text.split_once(separator), "{text:?}");
                assert_eq!(rsplit_once(text, separator), text.rsplit_once(separator), "{text:?}");
            }
        }
    }
}
