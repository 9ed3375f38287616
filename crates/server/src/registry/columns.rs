//! Column encodings of our types. rusqlite stores UUIDs as 16 bytes.

use time::OffsetDateTime;
use wingbeat_sql::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, Value, ValueRef};

/// A time in nanoseconds since 1970. Registry times come from the server's clock, which 64 bits hold until 2262.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) OffsetDateTime);

impl ToSql for Time {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let ns = self.0.unix_timestamp_nanos();
        let ns = i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX });
        Ok(ToSqlOutput::Owned(Value::Integer(ns)))
    }
}

impl FromSql for Time {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let time = OffsetDateTime::from_unix_timestamp_nanos(value.as_i64()?.into());
        time.map(Self).map_err(FromSqlError::other)
    }
}
