//! Converts between SQLite's value types and PostgreSQL's, by the column's type.

use std::error::Error as StdError;

use bytes::BytesMut;
use postgres::types::{FromSql, IsNull, Type, to_sql_checked};
use rusqlite::{
    ToSql,
    types::{ToSqlOutput, Value, ValueRef},
};

use crate::error::{Error, Result};

type Boxed = Box<dyn StdError + Send + Sync>;

/// Escape byte in texts. The next byte says whether it stands for [`NUL`], which PostgreSQL cannot store, or for
/// itself.
const ESCAPE: u8 = 1;
const NUL: u8 = 0;

/// A value bound to a PostgreSQL parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter(Value);

impl Parameter {
    pub(crate) fn of(value: &dyn ToSql) -> Result<Self> {
        match value.to_sql()? {
            ToSqlOutput::Borrowed(value) => Ok(Self(owned(value)?)),
            ToSqlOutput::Owned(value) => Ok(Self(value)),
            other => Err(Error::value(format!("{other:?} is not a value"))),
        }
    }

    /// Approximate size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.0 {
            Value::Text(text) => text.len(),
            Value::Blob(bytes) => bytes.len(),
            _ => 8,
        }
    }
}

fn owned(value: ValueRef<'_>) -> Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => {
            Value::Text(std::str::from_utf8(text).map_err(Error::value)?.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
    })
}

impl postgres::types::ToSql for Parameter {
    fn to_sql(&self, to: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match (&self.0, to) {
            (Value::Null, _) => return Ok(IsNull::Yes),
            (Value::Integer(number), &Type::INT8) => out.extend_from_slice(&number.to_be_bytes()),
            (Value::Integer(number), &Type::INT4) => {
                out.extend_from_slice(&i32::try_from(*number)?.to_be_bytes());
            }
            (Value::Integer(number), &Type::INT2) => {
                out.extend_from_slice(&i16::try_from(*number)?.to_be_bytes());
            }
            (Value::Integer(number @ (0 | 1)), &Type::BOOL) => {
                out.extend_from_slice(&[*number as u8]);
            }
            (Value::Integer(number), &Type::FLOAT8) => {
                out.extend_from_slice(&(*number as f64).to_be_bytes());
            }
            // SQLite stores -0.0 as 0.
            (Value::Real(number), &Type::FLOAT8) => {
                out.extend_from_slice(&(number + 0.0).to_be_bytes());
            }
            (Value::Text(text), &Type::TEXT | &Type::VARCHAR | &Type::NAME) => escape(text, out),
            (Value::Blob(bytes), &Type::BYTEA) => out.extend_from_slice(bytes),
            (value, to) => return Err(format!("{value:?} is not a {to}").into()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn escape(text: &str, out: &mut BytesMut) {
    if !text.bytes().any(|byte| byte == NUL || byte == ESCAPE) {
        return out.extend_from_slice(text.as_bytes());
    }
    for byte in text.bytes() {
        match byte {
            NUL => out.extend_from_slice(&[ESCAPE, b'0']),
            ESCAPE => out.extend_from_slice(&[ESCAPE, b'1']),
            byte => out.extend_from_slice(&[byte]),
        }
    }
}

/// Removes escapes from a text. `None` if it has none.
pub(crate) fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    if !text.contains(&ESCAPE) {
        return None;
    }
    let mut bytes = text.iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            &ESCAPE if bytes.next() == Some(&b'0') => NUL,
            byte => *byte,
        });
    }
    Some(plain)
}

/// A value read from PostgreSQL. Texts are still escaped.
pub(crate) struct Cell<'a>(pub(crate) ValueRef<'a>);

impl<'a> FromSql<'a> for Cell<'a> {
    fn from_sql(of: &Type, bytes: &'a [u8]) -> Result<Self, Boxed> {
        Ok(Self(match *of {
            Type::INT8 => ValueRef::Integer(i64::from_be_bytes(bytes.try_into()?)),
            Type::INT4 => ValueRef::Integer(i32::from_be_bytes(bytes.try_into()?).into()),
            Type::INT2 => ValueRef::Integer(i16::from_be_bytes(bytes.try_into()?).into()),
            Type::BOOL => ValueRef::Integer(i64::from(bytes != [0])),
            Type::FLOAT8 => ValueRef::Real(f64::from_be_bytes(bytes.try_into()?)),
            Type::TEXT | Type::VARCHAR | Type::NAME | Type::UNKNOWN => ValueRef::Text(bytes),
            Type::BYTEA => ValueRef::Blob(bytes),
            _ => return Err(format!("values of the type {of} are not read").into()),
        }))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self(ValueRef::Null))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use postgres::types::ToSql as _;

    use super::*;

    #[test]
    fn texts_may_have_a_nul() {
        let check = |text: &str, expected: &[u8]| {
            let mut bytes = BytesMut::new();
            let value = Parameter::of(&text).expect("a value");
            assert!(matches!(value.to_sql(&Type::TEXT, &mut bytes), Ok(IsNull::No)));
            assert_eq!(&bytes[..], expected);
            assert_eq!(unescaped(&bytes).unwrap_or_else(|| bytes.to_vec()), text.as_bytes());
        };
        check("plain", b"plain");
        check("a\0b", b"a\x010b");
        check("\u{1}0", b"\x0110");
        check("\0", b"\x010");
        check("", b"");
    }

    #[test]
    fn numbers_take_the_type_that_the_other_side_has() {
        let check = |value: &dyn ToSql, to: Type, expected: Option<&[u8]>| {
            let mut bytes = BytesMut::new();
            let written = Parameter::of(value).expect("a value").to_sql(&to, &mut bytes);
            assert_eq!(written.is_ok().then_some(&bytes[..]), expected, "{to}");
        };
        check(&1_i64, Type::INT8, Some(&[0, 0, 0, 0, 0, 0, 0, 1]));
        check(&-2_i64, Type::INT4, Some(&[255, 255, 255, 254]));
        check(&true, Type::BOOL, Some(&[1]));
        check(&1_i64, Type::FLOAT8, Some(&1_f64.to_be_bytes()));
        check(&(1_i64 << 40), Type::INT4, None);
        check(&2_i64, Type::BOOL, None);
        check(&"1", Type::INT8, None);
        check(&1.5, Type::INT8, None);
    }
}
