//! Normalizes function names: compilers append suffixes that differ between builds.

use std::borrow::Cow;

/// Suffixes of function clones by GCC and LLVM; some have a number after them.
const CLONES: [&str; 6] = [".cold", ".part", ".isra", ".constprop", ".llvm", ".lto_priv"];

/// The name without parts that differ between builds.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    let mut end = name.len();
    while let Some(shorter) = without_suffix(&name[..end]) {
        end = shorter;
    }
    without_disambiguators(&name[..end])
}

/// The function that a frame belongs to: closures have the name of their enclosing function, and the line
/// identifies them.
pub(crate) fn function(name: &str) -> String {
    let name = plain(name);
    let mut end = name.len();
    while let Some((front, last)) = name[..end].rsplit_once("::") {
        if !last.starts_with("{closure") && last != "{{closure}}" {
            break;
        }
        end = front.len();
    }
    name[..end].to_owned()
}

fn without_suffix(name: &str) -> Option<usize> {
    // `::h` and 16 hexadecimal digits: rustc's legacy mangling.
    if let Some((front, hash)) = name.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
    {
        return Some(front.len());
    }
    let (front, last) = name.rsplit_once('.')?;
    if last.is_empty() || front.is_empty() {
        return None;
    }
    if CLONES.iter().any(|clone| &clone[1..] == last) {
        return Some(front.len());
    }
    let is_number = last.bytes().all(|digit| digit.is_ascii_digit());
    let is_clone = CLONES.iter().any(|clone| front.ends_with(clone));
    (is_number && is_clone).then_some(front.len())
}

/// Removes crate hashes, `crate[0123456789abcdef]::name`.
fn without_disambiguators(name: &str) -> Cow<'_, str> {
    let mut rest = name;
    let mut plain = String::new();
    while let Some((front, behind)) = rest.split_once('[') {
        let hash = behind.split_once(']').filter(|(hash, _)| {
            hash.len() == 16 && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
        });
        plain.push_str(front);
        match hash {
            Some((_, behind)) => rest = behind,
            None => {
                plain.push('[');
                rest = behind;
            }
        }
    }
    if plain.is_empty() {
        return Cow::Borrowed(rest);
    }
    plain.push_str(rest);
    if plain == name { Cow::Borrowed(name) } else { Cow::Owned(plain) }
}

/// Removes generic arguments: `f::<u8>` is `f`, `<Vec<T> as Extend>::x` is `<as>::x`.
pub(crate) fn without_generics(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0_u32;
    let mut previous = ' ';
    for character in name.chars() {
        match character {
            '<' => depth += 1,
            // An arrow is not a bracket.
            '>' if previous != '-' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
        previous = character;
    }
    while plain.ends_with("::") {
        plain.truncate(plain.len() - 2);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_of_compilers_go() {
        let check = |name: &str, expected: &str| assert_eq!(plain(name), expected);
        check("alloc::vec::push::h0123456789abcdef", "alloc::vec::push");
        check("parse.cold", "parse");
        check("parse.part.0.isra.12", "parse");
        check("parse.llvm.1234567890", "parse");
        check("core[0123456789abcdef]::fmt::f[89abcdef01234567]", "core::fmt::f");
        check("main.main.func1", "main.main.func1");
        check("a::h", "a::h");
        check("f[3]", "f[3]");
        check("", "");
        check(".cold", ".cold");
    }

    #[test]
    fn generic_arguments_go() {
        let check = |name: &str, expected: &str| assert_eq!(without_generics(name), expected);
        check("f::<u8>", "f");
        check("map::<fn(u8) -> u16, Vec<u8>>::next", "map::::next");
        check("sum", "sum");
        check("a > b", "a  b");
    }
}
