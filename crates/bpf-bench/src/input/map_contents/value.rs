//! Bytes of a key or a value, written in JSON:
//!
//! - `"0a 00 00 01"`, `"0x0a000001"`: hexadecimal, in byte order;
//! - `5`, `-1`: a number, little-endian (as the machines that run the programs), padded to the
//!   size;
//! - `[10, 0, 0, 1]`, `["0x0a", "0x00", "0x00", "0x01"]`: bytes, also as written by bpftool;
//! - `{"u32": 5}`: a number of a given size, and `[{"u32": 5}, {"be16": 80}, 0, 0]`: a sequence of
//!   these and of bytes, for structures. Types: `u8` to `u64` and `i8` to `i64` little-endian,
//!   `be16` to `be64` big-endian, `ipv4`, `ipv6`, `prefix` (`"10.0.0.0/8"`: the key of a prefix
//!   trie), `hex`, `text` (without a trailing zero), `zeros` (a number of them). Numbers may be
//!   lists: `{"u16": [1, 2]}`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::Value;
use thiserror::Error;

use crate::input::hex::{self, HexError};

/// Supported types, for error messages.
const TYPES: &str = "u8, u16, u32, u64, i8, i16, i32, i64, be16, be32, be64, ipv4, ipv6, prefix, hex, \
                     text and zeros";

/// Characters of an invalid value that a message quotes.
const FOUND_MAX: usize = 40;

/// Why a JSON value cannot be converted to bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    #[error("expected {expected} bytes, found {found}")]
    Size { expected: usize, found: usize },
    #[error("{number} does not fit into {size} bytes")]
    Range { number: String, size: usize },
    #[error("{0} is not a whole number of at most 64 bits; write longer ones as hexadecimal text")]
    NotWhole(String),
    #[error("the text is not hexadecimal: {0}; write {{\"text\": …}} for the letters themselves")]
    Hex(HexError),
    #[error(
        "found {found}, expected a number, hexadecimal text, or a list of bytes and typed values \
         such as {{\"u32\": 5}}"
    )]
    Kind { found: &'static str },
    #[error("a typed value has one type, such as {{\"u32\": 5}}; found {members}")]
    Members { members: usize },
    #[error("there is no type {name}; the types are {TYPES}")]
    Type { name: String },
    #[error("{name} takes {expected}, found {found}")]
    TypeValue { name: String, expected: &'static str, found: String },
    #[error("expected the value of CPU {expected}, as {{\"cpu\": {expected}, \"value\": …}}")]
    Cpu { expected: usize },
    #[error(
        "it is the number of a {what} in the machine where it was read, which is meaningless \
             here; write {{\"{what}\": \"NAME\"}}"
    )]
    ForeignId { what: &'static str },
    #[error("bpftool could not read it: {message}; remove the entry")]
    Unread { message: String },
    #[error("\"values\" is a list with a value for each CPU, found {found}")]
    NotAListOfValues { found: &'static str },
}

/// Name of a JSON type in messages.
pub(super) fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Converts `value` to exactly `size` bytes.
pub(super) fn bytes(value: &Value, size: usize) -> Result<Vec<u8>, EntryError> {
    let mut bytes = Vec::new();
    match value {
        Value::Number(_) => return number(value, size, Order::Little),
        Value::String(text) => bytes = hex::parse_string(text).map_err(EntryError::Hex)?,
        Value::Array(items) => {
            for item in items {
                match item {
                    Value::Number(_) => bytes.extend(number(item, 1, Order::Little)?),
                    Value::Object(_) => typed(item, size, &mut bytes)?,
                    Value::String(text) => {
                        bytes.extend(hex::parse_string(text).map_err(EntryError::Hex)?);
                    }
                    other => return Err(EntryError::Kind { found: name_of(other) }),
                }
            }
        }
        Value::Object(_) => typed(value, size, &mut bytes)?,
        Value::Null | Value::Bool(_) => return Err(EntryError::Kind { found: name_of(value) }),
    }
    if bytes.len() == size {
        Ok(bytes)
    } else {
        Err(EntryError::Size { expected: size, found: bytes.len() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// A number of `size` bytes, signed or unsigned.
fn number(value: &Value, size: usize, order: Order) -> Result<Vec<u8>, EntryError> {
    let number = value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from));
    let number = number.ok_or_else(|| EntryError::NotWhole(value.to_string()))?;
    let all = number.to_le_bytes();
    let fits = match u32::try_from(size) {
        Ok(bits @ 0..=8) => {
            let bits = 8 * bits;
            let min = if bits == 0 { 0 } else { -(1_i128 << (bits - 1)) };
            number >= min && number < (1_i128 << bits)
        }
        _ => true,
    };
    if !fits {
        return Err(EntryError::Range { number: value.to_string(), size });
    }
    let fill = if number < 0 { 0xff } else { 0 };
    let mut bytes = all.to_vec();
    bytes.resize(size, fill);
    if order == Order::Big {
        bytes.reverse();
    }
    Ok(bytes)
}

/// Appends the bytes of `{"type": value}`. Never appends more than `size` zeros.
fn typed(value: &Value, size: usize, bytes: &mut Vec<u8>) -> Result<(), EntryError> {
    let members = value.as_object().into_iter().flatten();
    let (name, value) = match members.clone().next() {
        Some(member) if members.clone().count() == 1 => member,
        _ => return Err(EntryError::Members { members: members.count() }),
    };
    let wrong = |expected| EntryError::TypeValue {
        name: name.clone(),
        expected,
        found: value.to_string().chars().take(FOUND_MAX).collect(),
    };
    if let Some(number_type) = NumberType::of_name(name) {
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for item in items {
            if !item.is_number() {
                return Err(wrong("a number or a list of numbers"));
            }
            bytes.extend(number_type.bytes(item)?);
        }
        return Ok(());
    }
    let text = value.as_str();
    match name.as_str() {
        "ipv4" => {
            let address = text.and_then(|text| text.parse::<Ipv4Addr>().ok());
            let address = address.ok_or_else(|| wrong("an address such as \"192.0.2.1\""))?;
            bytes.extend(address.octets());
        }
        "ipv6" => {
            let address = text.and_then(|text| text.parse::<Ipv6Addr>().ok());
            let address = address.ok_or_else(|| wrong("an address such as \"2001:db8::1\""))?;
            bytes.extend(address.octets());
        }
        "prefix" => {
            let prefix = text.and_then(prefix);
            bytes.extend(prefix.ok_or_else(|| wrong("a prefix such as \"192.0.2.0/24\""))?);
        }
        "hex" => {
            let text = text.ok_or_else(|| wrong("hexadecimal text"))?;
            bytes.extend(hex::parse_string(text).map_err(EntryError::Hex)?);
        }
        "text" => bytes.extend(text.ok_or_else(|| wrong("a text"))?.as_bytes()),
        "zeros" => {
            let count = value.as_u64().ok_or_else(|| wrong("a number of bytes"))?;
            let found = usize::try_from(count).unwrap_or(usize::MAX).saturating_add(bytes.len());
            if found > size {
                return Err(EntryError::Size { expected: size, found });
            }
            bytes.resize(found, 0);
        }
        _ => return Err(EntryError::Type { name: name.clone() }),
    }
    Ok(())
}

/// A type of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NumberType {
    width: usize,
    is_signed: bool,
    order: Order,
}

impl NumberType {
    fn of_name(name: &str) -> Option<Self> {
        let (kind, bits) = name.split_at_checked(name.find(|c: char| c.is_ascii_digit())?)?;
        let width =
            [("8", 1), ("16", 2), ("32", 4), ("64", 8)].into_iter().find(|it| it.0 == bits)?.1;
        let (is_signed, order) = match kind {
            "u" => (false, Order::Little),
            "i" => (true, Order::Little),
            "be" if width > 1 => (false, Order::Big),
            _ => return None,
        };
        Some(Self { width, is_signed, order })
    }

    fn bytes(self, value: &Value) -> Result<Vec<u8>, EntryError> {
        // `number` accepts anything of this width, so the sign is checked here.
        let fits = match (self.is_signed, value.as_i64()) {
            (true, Some(number)) => {
                let unused_bits = 64_usize.saturating_sub(8 * self.width);
                (number << unused_bits) >> unused_bits == number
            }
            (true, None) => !value.is_u64(),
            (false, number) => number.is_none_or(|number| number >= 0),
        };
        if fits {
            number(value, self.width, self.order)
        } else {
            Err(EntryError::Range { number: value.to_string(), size: self.width })
        }
    }
}

/// `struct bpf_lpm_trie_key` (include/uapi/linux/bpf.h): length in bits, then the address.
fn prefix(text: &str) -> Option<Vec<u8>> {
    let (address, bits) = text.split_once('/')?;
    let octets = match address.parse().ok()? {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let bits: u32 = bits.parse().ok()?;
    let is_possible = usize::try_from(bits).is_ok_and(|bits| bits <= 8 * octets.len());
    is_possible.then(|| [bits.to_le_bytes().as_slice(), &octets].concat())
}
