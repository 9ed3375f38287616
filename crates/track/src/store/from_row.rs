//! Reads model types from columns of a row, and defines the names of those columns in queries.

use super::prelude::*;

/// Columns of an environment, from the report `r` and its `environment` `e`.
pub(super) const ENVIRONMENT: &str = "e.kernel AS kernel, e.cpu_model AS cpu_model, \
    e.governor AS governor, e.cores AS cores, e.compiler AS compiler, e.wingbeat AS wingbeat, \
    r.load AS load, r.steal AS steal, r.git_hash AS git_hash, r.is_dirty AS is_dirty";

/// Columns of a measure, from `measure` `q`.
pub(super) const MEASURE: &str = "q.slug AS slug, q.name AS measure_name, q.units AS units, \
    q.direction AS direction, q.kind AS kind";

/// Columns of a boundary, from `verdict` `v`.
pub(super) const BOUNDARY: &str = "v.has_boundary AS has_boundary, v.baseline AS baseline, \
    v.lower_limit AS lower_limit, v.upper_limit AS upper_limit";

/// The start point of a report, from columns `start_branch`, `start_hash` and so on.
pub(super) fn start_point(row: &Row<'_>) -> SqlResult<Option<StartPoint>> {
    let Some(Text(branch)) = row.get("start_branch")? else { return Ok(None) };
    Ok(Some(StartPoint {
        branch,
        hash: row.get("start_hash")?,
        until: row.get::<_, Option<Time>>("start_until_ns")?.map(|time| time.0),
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
        slug: row.get::<_, Text<_>>("slug")?.0,
        name: row.get::<_, String>("measure_name")?.into(),
        units: row.get::<_, String>("units")?.into(),
        direction: row.get::<_, Word<_>>("direction")?.0,
        kind: row.get::<_, Word<_>>("kind")?.0,
    })
}

/// The boundary from the columns [`BOUNDARY`], which may come from an outer join.
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

pub(super) fn time(row: &Row<'_>, column: &str) -> SqlResult<OffsetDateTime> {
    Ok(row.get::<_, Time>(column)?.0)
}

/// An alert from columns named as in the table, with `benchmark` and `slug` as texts.
pub(super) fn alert(row: &Row<'_>) -> SqlResult<Alert> {
    Ok(Alert {
        uuid: row.get::<_, Id>("uuid")?.0,
        iteration: row.get("iteration")?,
        benchmark: row.get::<_, Text<_>>("benchmark")?.0,
        measure: row.get::<_, Text<_>>("slug")?.0,
        limit: row.get::<_, Word<_>>("crossed")?.0,
        status: row.get::<_, Word<_>>("status")?.0,
        reason: row.get("reason")?,
    })
}
