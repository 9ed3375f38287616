//! Conversions between our types and columns.

use serde::{
    Serialize,
    de::{DeserializeOwned, IntoDeserializer as _, value::StrDeserializer},
};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{
    FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef, Written,
};

/// A UUID as 16 bytes, in text order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Id(pub(super) Uuid);

/// A time as nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) OffsetDateTime);

/// An enumeration value as a word, as in JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<T>(pub(super) T);

/// A value as JSON.
#[derive(Debug, Clone)]
pub(super) struct Json<T>(pub(super) T);

/// A text that was validated before writing.
#[derive(Debug, Clone)]
pub(super) struct Text<T>(pub(super) T);

/// Numbers as little-endian floats.
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) Vec<f64>);

/// Nanoseconds since 1970, if they fit into 64 bits: from 1677 to 2262.
pub(super) fn time_ns(time: OffsetDateTime) -> Option<i64> {
    i64::try_from(time.unix_timestamp_nanos()).ok()
}

/// Like [`time_ns`], but clamped to the range, which is correct for limits.
pub(super) fn limit_ns(time: OffsetDateTime) -> i64 {
    let end = if time < OffsetDateTime::UNIX_EPOCH { i64::MIN } else { i64::MAX };
    time_ns(time).unwrap_or(end)
}

impl ToSql for Id {
    fn to_sql(&self) -> Written<'_> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(self.0.as_bytes())))
    }
}

impl FromSql for Id {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Uuid::from_slice(value.as_blob()?).map(Self).map_err(FromSqlError::other)
    }
}

impl ToSql for Time {
    fn to_sql(&self) -> Written<'_> {
        Ok(ToSqlOutput::Owned(Value::Integer(limit_ns(self.0))))
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let nanoseconds = i128::from(value.as_i64()?);
        let time = OffsetDateTime::from_unix_timestamp_nanos(nanoseconds);
        time.map(Self).map_err(FromSqlError::other)
    }
}

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> Written<'_> {
        let error = match serde_json::to_value(&self.0) {
            Ok(serde_json::Value::String(word)) => {
                return Ok(ToSqlOutput::Owned(Value::Text(word)));
            }
            Ok(other) => wingbeat_sql::not_written(format!("{other} is no word")),
            Err(error) => wingbeat_sql::not_written(error),
        };
        Err(error)
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word: StrDeserializer<'_, serde::de::value::Error> =
            value.as_str()?.into_deserializer();
        T::deserialize(word).map(Self).map_err(FromSqlError::other)
    }
}

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> Written<'_> {
        let text = serde_json::to_string(&self.0).map_err(wingbeat_sql::not_written)?;
        Ok(ToSqlOutput::Owned(Value::Text(text)))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

impl<T> FromSql for Text<T>
where
    T: TryFrom<String, Error: std::error::Error + Send + Sync + 'static>,
{
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        T::try_from(value.as_str()?.to_owned()).map(Self).map_err(FromSqlError::other)
    }
}

impl ToSql for Numbers {
    fn to_sql(&self) -> Written<'_> {
        let bytes = self.0.iter().flat_map(|number| number.to_le_bytes()).collect();
        Ok(ToSqlOutput::Owned(Value::Blob(bytes)))
    }
}

impl FromSql for Numbers {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let (numbers, rest) = value.as_blob()?.as_chunks();
        match rest {
            [] => Ok(Self(numbers.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())),
            _ => Err(FromSqlError::Other("samples of a broken length".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use wingbeat_sql::{Connection, Result};

    use super::*;
    use crate::{adapter::Adapter, model::Slug};

    fn there_and_back<A: ToSql, B: FromSql>(value: A) -> Result<B> {
        let connection = rusqlite::Connection::open_in_memory().expect("a database");
        Connection::from(connection).query_row("SELECT ?1", [value], |row| row.get(0))
    }

    #[test]
    fn values_come_back() {
        let uuid = Uuid::from_u128(7);
        assert_eq!(there_and_back::<_, Id>(Id(uuid)).expect("a UUID"), Id(uuid));
        let time = OffsetDateTime::UNIX_EPOCH + time::Duration::nanoseconds(-7);
        assert_eq!(there_and_back::<_, Time>(Time(time)).expect("a time"), Time(time));
        let numbers = vec![1.5, -0.1, 1e300];
        let back: Numbers = there_and_back(Numbers(numbers.clone())).expect("numbers");
        assert_eq!(back.0, numbers);
        for adapter in Adapter::all() {
            let back: Word<Adapter> = there_and_back(Word(adapter)).expect("a word");
            assert_eq!(back.0, adapter);
        }
    }

    #[test]
    fn values_that_nobody_has_written_are_errors() {
        assert!(there_and_back::<_, Id>(vec![1u8; 15]).is_err());
        assert!(there_and_back::<_, Numbers>(vec![1u8; 9]).is_err());
        assert!(there_and_back::<_, Word<Adapter>>("nobody").is_err());
        assert!(there_and_back::<_, Text<Slug>>("No Slug").is_err());
    }
}
