//! Parses values of global variables, according to their BTF types.

use std::{fmt, str::FromStr};

use super::member_names;
use crate::btf::table::{BOOL, SIGNED, Type, TypeKind, TypeTable};

/// Maximum size of an integer in bytes.
const INTEGER_BYTES_MAX: usize = 16;

/// A variable with its new value, written `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobalSetting {
    /// Name of a variable, or of a part of one: `array[2]`, `settings.limit`.
    pub name: String,
    /// A number, `true`, `false`, the name of an enumerator, a text, or `hex:` and bytes in hexadecimal.
    pub value: String,
}

/// The text is not `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("found {0:?} where a variable and its value should be; write NAME=VALUE")]
pub struct NotASetting(String);

impl FromStr for GlobalSetting {
    type Err = NotASetting;

    fn from_str(text: &str) -> Result<Self, NotASetting> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(NotASetting(text.to_owned())),
        }
    }
}

impl fmt::Display for GlobalSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// Kind of a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// `true` and `false`.
    Bool,
    /// A number; its signedness is not always known.
    Integer { is_signed: Option<bool> },
    /// A number that may be written as a name.
    Enumeration { is_signed: bool, names: Vec<(String, u64)> },
    /// Bytes. Text of letters needs no quotes, and has a zero terminator.
    Text { is_letters: bool },
    /// Raw bytes; with a description of the type, and of how to set a part of it.
    Other { what: &'static str, part: String },
}

impl Shape {
    /// The shape of a type.
    pub(super) fn of(found: Option<Type<'_>>, types: &TypeTable) -> Self {
        let Some(found) = found else { return Self::Integer { is_signed: None } };
        match found.kind {
            TypeKind::INT => match found.integer() {
                Some((encoding, _)) if encoding & BOOL != 0 => Self::Bool,
                Some((encoding, _)) => Self::Integer { is_signed: Some(encoding & SIGNED != 0) },
                None => Self::Integer { is_signed: None },
            },
            kind if kind.is_enumeration() => Self::Enumeration {
                is_signed: found.is_flagged,
                names: found
                    .values()
                    .into_iter()
                    .filter_map(|(name, value)| Some((types.text(name)?.to_owned(), value)))
                    .collect(),
            },
            TypeKind::PTR => Self::Integer { is_signed: Some(false) },
            TypeKind::ARRAY => Self::of_array(found, types),
            TypeKind::STRUCT | TypeKind::UNION => Self::Other {
                what: if found.kind == TypeKind::STRUCT { "a structure" } else { "a union" },
                part: member_names(types, found).map_or_else(String::new, |names| {
                    format!("set a member by NAME.MEMBER=VALUE ({names}), or ")
                }),
            },
            TypeKind::FLOAT => Self::Other { what: "a floating-point number", part: String::new() },
            _ => Self::Integer { is_signed: None },
        }
    }

    fn of_array(array: Type<'_>, types: &TypeTable) -> Self {
        let element = array.tail.first().and_then(|id| types.resolve(*id));
        match element.filter(|it| it.kind == TypeKind::INT && it.link == 1) {
            Some(byte) => Self::Text { is_letters: types.name(byte) == "char" },
            None => Self::Other {
                what: "an array",
                part: "set an element by NAME[INDEX]=VALUE, or ".to_owned(),
            },
        }
    }

    /// Converts a value to `size` bytes, little-endian. The error is a reason.
    pub(super) fn bytes(&self, value: &str, size: usize) -> Result<Vec<u8>, String> {
        if let Some(digits) = value.strip_prefix("hex:") {
            return hexadecimal(digits, size);
        }
        match (self, value) {
            (Self::Text { is_letters }, _) => text(value, size, *is_letters),
            (Self::Other { what, part }, _) => Err(format!(
                "it is {what} of {size} bytes; {part}write them as hex:0a0b…, in the order of memory"
            )),
            (Self::Bool | Self::Integer { .. }, "false") => number(0, size, None),
            (Self::Bool | Self::Integer { .. }, "true") => number(1, size, None),
            (Self::Bool, _) => match whole_number(value) {
                Some(found @ (0 | 1)) => number(found, size, None),
                _ => Err(format!("it is true or false, and {value:?} is neither")),
            },
            (Self::Integer { is_signed }, _) => match whole_number(value) {
                Some(found) => number(found, size, *is_signed),
                None => Err(format!(
                    "{value:?} is not a number; write one such as 5, -1 or 0x0a, true, false, or \
                     hex: and bytes"
                )),
            },
            (Self::Enumeration { is_signed, names }, _) => {
                let named = names.iter().find(|(name, _)| name == value).map(|(_, value)| *value);
                let named = named.map(|value| match is_signed {
                    true => i128::from(value.cast_signed()),
                    false => i128::from(value),
                });
                match named.or_else(|| whole_number(value)) {
                    Some(found) => number(found, size, Some(*is_signed)),
                    None => Err(format!(
                        "{value:?} is neither a number nor one of its names: {}",
                        listed(names.iter().map(|(name, _)| name.as_str()))
                    )),
                }
            }
        }
    }
}

/// The first few names.
pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<_> = names.take(SHOWN + 1).collect();
    if names.len() > SHOWN {
        names[SHOWN] = "…";
    }
    names.join(", ")
}

/// An integer: decimal or with `0x`, with optional sign.
pub(crate) fn whole_number(text: &str) -> Option<i128> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    // `parse` would accept another sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with(['+', '-']) => i128::from_str_radix(digits, 16).ok()?,
        Some(_) => return None,
        None => digits.parse().ok()?,
    };
    Some(if is_negative { -number } else { number })
}

/// Bytes of a number, if it fits. With unknown signedness, either range is accepted.
fn number(number: i128, size: usize, is_signed: Option<bool>) -> Result<Vec<u8>, String> {
    if size == 0 || size > INTEGER_BYTES_MAX {
        return Err(format!(
            "it has {size} bytes; write them as hex:0a0b…, in the order of memory"
        ));
    }
    // 128-bit unsigned values that exceed `i128` must be written as bytes.
    let bits = u32::try_from(8 * size).unwrap_or(u32::MAX);
    let power = |exponent: u32| 1_i128.checked_shl(exponent).filter(|power| *power > 0);
    let signed = power(bits - 1).map_or((i128::MIN, i128::MAX), |half| (-half, half - 1));
    let unsigned = (0, power(bits).map_or(i128::MAX, |all| all - 1));
    let (min, max) = match is_signed {
        Some(true) => signed,
        Some(false) => unsigned,
        None => (signed.0, unsigned.1),
    };
    if (min..=max).contains(&number) {
        Ok(number.to_le_bytes()[..size].to_vec())
    } else {
        Err(format!("{number} does not fit: the range is {min} to {max}"))
    }
}

/// Bytes of a text, padded with zeros. Removes surrounding quotes.
fn text(value: &str, size: usize, is_letters: bool) -> Result<Vec<u8>, String> {
    let quoted = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let Some(text) = quoted.or(is_letters.then_some(value)) else {
        return Err(format!(
            "it is an array of {size} bytes; write a text in quotes, \"text\", set one byte by \
             NAME[INDEX]=VALUE, or all as hex:0a0b…"
        ));
    };
    // Readers of text expect a zero terminator.
    let len_max = if is_letters { size.saturating_sub(1) } else { size };
    if text.len() > len_max {
        return Err(format!(
            "it has room for {len_max} bytes of text, and {text:?} has {}",
            text.len()
        ));
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(size, 0);
    Ok(bytes)
}

fn hexadecimal(digits: &str, size: usize) -> Result<Vec<u8>, String> {
    let digits: Vec<u32> = digits
        .chars()
        .filter(|letter| !letter.is_whitespace())
        .map(|letter| letter.to_digit(16))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("hex:{digits} is not hexadecimal"))?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(format!("{} hexadecimal digits are an odd number", digits.len()));
    }
    if pairs.len() != size {
        return Err(format!("it has {size} bytes, and {} were given", pairs.len()));
    }
    // Two digits of four bits each.
    Ok(pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).unwrap_or(0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let found = text.parse::<GlobalSetting>();
            let found = found.as_ref().ok().map(|it| (it.name.as_str(), it.value.as_str()));
            assert_eq!(found, expected, "{text}");
        };
        check("a=1", Some(("a", "1")));
        check(" a = 1 ", Some(("a", "1")));
        check("a=b=c", Some(("a", "b=c")));
        check("a=", Some(("a", "")));
        check("=1", None);
        check("a", None);
        check("", None);
    }

    #[test]
    fn values_and_their_bytes() {
        const ANY: Shape = Shape::Integer { is_signed: None };
        const SIGNED: Shape = Shape::Integer { is_signed: Some(true) };
        const UNSIGNED: Shape = Shape::Integer { is_signed: Some(false) };
        #[track_caller]
        fn check(shape: &Shape, value: &str, size: usize, expected: Result<&[u8], &str>) {
            let found = shape.bytes(value, size);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{value}"),
                Err(part) => {
                    let reason = found.expect_err(value);
                    assert!(reason.contains(part), "{value}: {reason}");
                }
            }
        }
        check(&ANY, "5", 4, Ok(&[5, 0, 0, 0]));
        check(&ANY, "0x0A0b", 2, Ok(&[0x0b, 0x0a]));
        check(&ANY, "-1", 2, Ok(&[255, 255]));
        check(&ANY, "-0x80", 1, Ok(&[0x80]));
        check(&ANY, "255", 1, Ok(&[255]));
        check(&SIGNED, "255", 1, Err("255 does not fit: the range is -128 to 127"));
        check(&UNSIGNED, "-1", 1, Err("-1 does not fit: the range is 0 to 255"));
        check(&UNSIGNED, "18446744073709551615", 8, Ok(&[255; 8]));
        check(&UNSIGNED, "18446744073709551616", 8, Err("the range is 0 to 18446744073709551615"));
        check(&ANY, "-1", 16, Ok(&[255; 16]));
        check(
            &SIGNED,
            "0x7fffffffffffffffffffffffffffffff",
            16,
            Ok(&[[255; 15].as_slice(), &[127]].concat()),
        );
        check(&ANY, "1", 0, Err("it has 0 bytes"));
        check(&ANY, "1", 17, Err("write them as hex:"));
        for text in ["", "-", "x", "0x", "--1", "+1", "0x-1", "-+1", "1.5", "1 2"] {
            check(&ANY, text, 4, Err("is not a number"));
        }
        check(&ANY, "true", 4, Ok(&[1, 0, 0, 0]));
        check(&Shape::Bool, "true", 1, Ok(&[1]));
        check(&Shape::Bool, "0", 1, Ok(&[0]));
        check(&Shape::Bool, "2", 1, Err("it is true or false"));
        let names = vec![("OFF".to_owned(), 0), ("LOW".to_owned(), u64::MAX)];
        let signed = Shape::Enumeration { is_signed: true, names: names.clone() };
        check(&signed, "LOW", 4, Ok(&[255; 4]));
        check(&signed, "7", 4, Ok(&[7, 0, 0, 0]));
        check(&signed, "HIGH", 4, Err("one of its names: OFF, LOW"));
        check(&Shape::Enumeration { is_signed: false, names }, "LOW", 8, Ok(&[255; 8]));
        let array = Shape::Other { what: "an array", part: String::new() };
        check(&array, "hex:0a 0B", 2, Ok(&[10, 11]));
        check(&array, "hex:0a0", 2, Err("an odd number"));
        check(&array, "hex:0a", 2, Err("it has 2 bytes, and 1 were given"));
        check(&array, "hex:0g", 1, Err("not hexadecimal"));
        check(&array, "1", 2, Err("it is an array of 2 bytes; write them as hex:"));
        let letters = Shape::Text { is_letters: true };
        check(&letters, "ab", 4, Ok(b"ab\0\0"));
        check(&letters, "\"a b\"", 4, Ok(b"a b\0"));
        check(&letters, "hex:61626364", 4, Ok(b"abcd"));
        check(&letters, "abcd", 4, Err("room for 3 bytes of text, and \"abcd\" has 4"));
        check(&letters, "", 2, Ok(&[0, 0]));
        let numbers = Shape::Text { is_letters: false };
        check(&numbers, "\"ab\"", 2, Ok(b"ab"));
        check(&numbers, "12", 2, Err("it is an array of 2 bytes; write a text in quotes"));
    }
}
