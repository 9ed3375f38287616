//! Slugs of a project's measures.

use super::prelude::*;
use crate::model::Slugs;

use super::{
    checksum::MEASURE,
    from_row::{self, measure},
};

impl Store {
    /// The slugs of a project's measures, oldest first.
    pub fn slugs(&self, project: &ProjectName) -> Result<Slugs, StoreError> {
        slugs(&self.connection, project).map_err(self.error("reading the names of measures"))
    }
}

fn slugs(db: &Connection, project: &ProjectName) -> SqlResult<Slugs> {
    let columns = (from_row::MEASURE, MEASURE.name);
    let sql = format!("SELECT q.id, {} FROM {} q ORDER BY q.id", columns.0, columns.1);
    let rows = prepare(db, &sql)?
        .query_map([], |row| Ok((row.get::<_, i64>(0)?, measure(row)?)))?
        .collect::<SqlResult<Vec<_>>>()?;
    let mut slugs = Slugs::default();
    for (row, measure) in &rows {
        let shares = |other: &Measure| other.slug == measure.slug && !other.is(measure);
        // Ownership matters only if several names share a slug. It takes a search.
        if !rows.iter().any(|(_, other)| shares(other)) || is_used(db, project, *row)? {
            slugs.of(measure);
        }
    }
    Ok(slugs)
}

fn is_used(db: &Connection, project: &ProjectName, measure: i64) -> SqlResult<bool> {
    let Some(project) = project_row(db, project)? else { return Ok(false) };
    let sql = "SELECT 1 FROM report r CROSS JOIN metric m ON m.report = r.id
               WHERE r.project = ?1 AND m.measure = ?2 LIMIT 1";
    prepare(db, sql)?.exists([project, measure])
}
