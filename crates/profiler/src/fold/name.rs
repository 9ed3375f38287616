//! Normalizes function names: removes type arguments, hashes and closure numbers.
//!
//! Rust function names come from two manglings and from DWARF, which write the same function in several ways:
//! `<std::thread::Builder>::spawn::<F>`, `std::thread::Builder::spawn`. Any text is accepted; other names stay
//! nearly unchanged and match no rule.

use std::borrow::Cow;

/// A normalized name, as matched by the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    /// Path without type arguments: `core::ops::function::FnOnce::call_once`, also for a trait implementation.
    pub path: String,
    /// The implementing type of a trait method, without its arguments.
    pub of: Option<String>,
}

/// Normalizes a name.
pub(super) fn plain(name: &str) -> Plain {
    let name = without_hash(without_version(name));
    let Some((inner, rest)) = qualified(name) else {
        return Plain { path: path(name), of: None };
    };
    match split_as(inner) {
        Some((of, of_trait)) => {
            Plain { path: path(&format!("{}{rest}", path(of_trait))), of: Some(path(of)) }
        }
        None => Plain { path: path(&format!("{}{rest}", path(inner))), of: None },
    }
}

/// `name@@GLIBC_2.34`
fn without_version(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// `path::h0123456789abcdef`
fn without_hash(name: &str) -> &str {
    let Some((path, hash)) = name.rsplit_once("::h") else { return name };
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { path } else { name }
}

/// Splits `<…>rest`.
fn qualified(name: &str) -> Option<(&str, &str)> {
    let inner = name.strip_prefix('<')?;
    let end = depths(inner).find_map(|(index, depth)| (depth < 0).then_some(index))?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}

/// Splits `TYPE as TRAIT`.
fn split_as(inner: &str) -> Option<(&str, &str)> {
    let at = depths(inner).find_map(|(index, depth)| {
        (depth == 0 && inner.get(index..)?.starts_with(" as ")).then_some(index)
    })?;
    Some((inner.get(..at)?, inner.get(at + 4..)?))
}

/// Bracket depth after each byte, with its position. The `>` of an arrow does not count.
fn depths(text: &str) -> impl Iterator<Item = (usize, i32)> {
    let mut depth = 0_i32;
    let mut before = b' ';
    text.bytes().enumerate().map(move |(index, byte)| {
        match byte {
            b'<' => depth += 1,
            b'>' if before != b'-' && before != b'=' => depth -= 1,
            _ => {}
        }
        before = byte;
        (index, depth)
    })
}

/// Removes type arguments from a path, and normalizes closures.
fn path(text: &str) -> String {
    let mut kept = Vec::with_capacity(text.len());
    for (byte, (_, depth)) in text.bytes().zip(depths(text)) {
        if depth <= 0 && byte != b'>' {
            kept.push(byte);
        } else if depth == 1 && byte == b'<' && kept.ends_with(b"::") {
            kept.truncate(kept.len() - 2);
        }
    }
    let text = String::from_utf8_lossy(&kept);
    let mut parts: Vec<Cow<'_, str>> = Vec::new();
    for part in text.trim_start_matches(['&', '*', ' ']).split("::") {
        let (part, is_shim) = match part.strip_suffix("{{vtable.shim}}") {
            Some(part) => (part, true),
            None => (part, false),
        };
        match part {
            "" if is_shim => {}
            part if part.starts_with("{shim") => {}
            part if part.starts_with("{{closure}}") || part.starts_with("{closure") => {
                parts.push(Cow::Borrowed("{closure}"));
            }
            part => parts.push(Cow::Borrowed(part)),
        }
    }
    parts.join("::")
}
