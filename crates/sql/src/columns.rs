//! Types of columns besides SQLite's own.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, Value, ValueRef};
use serde::{
    Serialize,
    de::{DeserializeOwned, IntoDeserializer as _, value::StrDeserializer},
};
use time::OffsetDateTime;

use crate::{Column, Result, Row, ToSql, Written, not_written};

/// Implements [`ToSql`] and [`FromSql`] for types that are strings in JSON: enumerations and names.
#[macro_export]
macro_rules! as_text {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::ToSql for $type {
            fn to_sql(&self) -> $crate::Written<'_> {
                $crate::text_of(self)
            }
        }

        impl $crate::FromSql for $type {
            fn column_result(value: $crate::ValueRef<'_>) -> $crate::FromSqlResult<Self> {
                $crate::of_text(value)
            }
        }
    )+};
}

#[doc(hidden)]
pub fn text_of(value: &impl Serialize) -> Written<'static> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => Ok(ToSqlOutput::Owned(Value::Text(text))),
        Ok(other) => Err(not_written(format!("{other} is not a text"))),
        Err(error) => Err(not_written(error)),
    }
}

#[doc(hidden)]
pub fn of_text<T: DeserializeOwned>(value: ValueRef<'_>) -> FromSqlResult<T> {
    let text: StrDeserializer<'_, serde::de::value::Error> = value.as_str()?.into_deserializer();
    T::deserialize(text).map_err(FromSqlError::other)
}

/// A time as nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time(pub OffsetDateTime);

/// Nanoseconds since 1970, clamped to what 64 bits hold: from 1677 to 2262. This is correct for limits.
pub fn limit_ns(time: OffsetDateTime) -> i64 {
    let end = if time < OffsetDateTime::UNIX_EPOCH { i64::MIN } else { i64::MAX };
    i64::try_from(time.unix_timestamp_nanos()).unwrap_or(end)
}

impl ToSql for Time {
    fn to_sql(&self) -> Written<'_> {
        Ok(ToSqlOutput::Owned(Value::Integer(limit_ns(self.0))))
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let time = OffsetDateTime::from_unix_timestamp_nanos(value.as_i64()?.into());
        time.map(Self).map_err(FromSqlError::other)
    }
}

impl Row<'_> {
    /// The time in a column of nanoseconds since 1970.
    pub fn time(&self, column: impl Column) -> Result<OffsetDateTime> {
        self.get(column).map(|Time(time)| time)
    }

    /// Like [`Self::time`], for a column that may be null.
    pub fn optional_time(&self, column: impl Column) -> Result<Option<OffsetDateTime>> {
        Ok(self.get::<_, Option<Time>>(column)?.map(|Time(time)| time))
    }
}
