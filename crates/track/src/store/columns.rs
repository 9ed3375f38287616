//! Conversions between our types and columns, and columns of queries from which model types are read.

use serde::{Serialize, de::DeserializeOwned};
use time::OffsetDateTime;
use wingbeat_sql::{
    FromSql, FromSqlError, FromSqlResult, Row, ToSql, ToSqlOutput, Value, ValueRef, Written,
    as_text,
};

use super::SqlResult;
use crate::{
    adapter::Adapter,
    model::{
        Alert, AlertStatus, BenchmarkName, Boundary, BranchName, Direction, Environment, Limit,
        Measure, MeasureKind, Outcome, ProfileKind, ProjectName, Slug, StartPoint, TestbedName,
        threshold::Test,
    },
};

as_text!(
    Adapter,
    AlertStatus,
    BenchmarkName,
    BranchName,
    Direction,
    Limit,
    MeasureKind,
    Outcome,
    ProfileKind,
    ProjectName,
    Slug,
    Test,
    TestbedName,
);

/// A value as JSON.
#[derive(Debug, Clone)]
pub(super) struct Json<T>(pub(super) T);

/// Numbers as little-endian floats.
#[derive(Debug, Clone)]
pub(super) struct Numbers(pub(super) Vec<f64>);

/// Nanoseconds since 1970, if they fit into 64 bits: from 1677 to 2262.
pub(super) fn time_ns(time: OffsetDateTime) -> Option<i64> {
    i64::try_from(time.unix_timestamp_nanos()).ok()
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

/// Columns of an environment, from the report `r` and its `environment` `e`.
pub(super) const ENVIRONMENT_COLUMNS: &str = "e.kernel AS kernel, e.cpu_model AS cpu_model, \
    e.governor AS governor, e.cores AS cores, e.compiler AS compiler, e.wingbeat AS wingbeat, \
    r.load AS load, r.steal AS steal, r.git_hash AS git_hash, r.is_dirty AS is_dirty";

/// Columns of a measure, from `measure` `q`.
pub(super) const MEASURE_COLUMNS: &str = "q.slug AS slug, q.name AS measure_name, q.units AS units, \
    q.direction AS direction, q.kind AS kind";

/// Columns of a boundary, from `verdict` `v`.
pub(super) const BOUNDARY_COLUMNS: &str = "v.has_boundary AS has_boundary, v.baseline AS baseline, \
    v.lower_limit AS lower_limit, v.upper_limit AS upper_limit";

/// The start point of a report, from columns `start_branch`, `start_hash` and so on.
pub(super) fn start_point(row: &Row<'_>) -> SqlResult<Option<StartPoint>> {
    let Some(branch) = row.get("start_branch")? else { return Ok(None) };
    Ok(Some(StartPoint {
        branch,
        hash: row.get("start_hash")?,
        until: row.optional_time("start_until_ns")?,
        max_versions: row.get("start_versions_max")?,
    }))
}

pub(super) fn environment(row: &Row<'_>) -> SqlResult<Environment> {
    Ok(Environment {
        kernel: row.get("kernel")?,
        cpu_model: row.get("cpu_model")?,
        governor: row.get("governor")?,
        cores: row.get("cores")?,
        load: row.get("load")?,
        steal: row.get("steal")?,
        compiler: row.get("compiler")?,
        git_hash: row.get("git_hash")?,
        is_dirty: row.get("is_dirty")?,
        wingbeat: row.get("wingbeat")?,
    })
}

pub(super) fn measure(row: &Row<'_>) -> SqlResult<Measure> {
    Ok(Measure {
        slug: row.get("slug")?,
        name: row.get::<_, String>("measure_name")?.into(),
        units: row.get::<_, String>("units")?.into(),
        direction: row.get("direction")?,
        kind: row.get("kind")?,
    })
}

/// The boundary from the columns [`BOUNDARY_COLUMNS`], which may come from an outer join.
pub(super) fn boundary(row: &Row<'_>) -> SqlResult<Option<Boundary>> {
    if !row.get::<_, Option<bool>>("has_boundary")?.unwrap_or(false) {
        return Ok(None);
    }
    Ok(Some(Boundary {
        baseline: row.get("baseline")?,
        lower_limit: row.get("lower_limit")?,
        upper_limit: row.get("upper_limit")?,
    }))
}

/// An alert from columns named as in the table, with `benchmark` and `slug` as texts.
pub(super) fn alert(row: &Row<'_>) -> SqlResult<Alert> {
    Ok(Alert {
        uuid: row.get("uuid")?,
        iteration: row.get("iteration")?,
        benchmark: row.get("benchmark")?,
        measure: row.get("slug")?,
        limit: row.get("crossed")?,
        status: row.get("status")?,
        reason: row.get("reason")?,
    })
}

#[cfg(test)]
mod tests {
    use wingbeat_sql::{Connection, Result, Time};

    use super::*;

    fn there_and_back<A: ToSql, B: FromSql>(value: A) -> Result<B> {
        let connection = rusqlite::Connection::open_in_memory().expect("a database");
        Connection::from(connection).query_row("SELECT ?1", [value], |row| row.get(0))
    }

    #[test]
    fn values_come_back() {
        let time = OffsetDateTime::UNIX_EPOCH + time::Duration::nanoseconds(-7);
        assert_eq!(there_and_back::<_, Time>(Time(time)).expect("a time"), Time(time));
        let numbers = vec![1.5, -0.1, 1e300];
        let back: Numbers = there_and_back(Numbers(numbers.clone())).expect("numbers");
        assert_eq!(back.0, numbers);
        for adapter in Adapter::all() {
            assert_eq!(there_and_back::<_, Adapter>(adapter).expect("a word"), adapter);
        }
    }

    #[test]
    fn values_of_another_form_are_errors() {
        assert!(there_and_back::<_, Numbers>(vec![1u8; 9]).is_err());
        assert!(there_and_back::<_, Adapter>("nobody").is_err());
        assert!(there_and_back::<_, Slug>("No Slug").is_err());
    }
}
