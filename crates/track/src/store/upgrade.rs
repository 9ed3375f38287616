//! Brings a store of version 1 to version 2: works out the checksums of what is there. Damage from before
//! is sealed along with the rest, since nothing tells it.

use rusqlite::{Connection, Row, ToSql, params_from_iter, types::Value};

use super::{
    SqlResult,
    checksum::{
        ALERT, ALERT_CHANGE, BENCHMARK, BRANCH, Checksum, ENVIRONMENT, FAILURE, MEASURE, METRIC,
        PROJECT, REPORT, SAMPLES, TESTBED, Table, VERDICT, damage,
    },
    error::is_damage,
    sums::{Sums, Total},
};

pub(super) fn add_checksums(db: &Connection) -> SqlResult<()> {
    for table in [PROJECT, BRANCH, TESTBED, BENCHMARK, MEASURE, ENVIRONMENT] {
        seal(db, table, "", &[])?;
    }
    let mut total = Total::default();
    let reports = numbers(db, "SELECT id FROM report", &[])?;
    for report in reports {
        let samples = "SELECT samples FROM metric WHERE report = ?1 AND samples IS NOT NULL";
        for row in numbers(db, samples, &[&report])? {
            seal(db, SAMPLES, "WHERE id = ?1", &[&row])?;
        }
        for table in [METRIC, FAILURE, VERDICT, ALERT] {
            seal(db, table, "WHERE report = ?1", &[&report])?;
        }
        // A damaged row must not keep the whole store from being opened: later reads find the report damaged.
        let sums = Sums::read(db, report, &mut |_, error| {
            if is_damage(&error) { Ok(()) } else { Err(error) }
        })?;
        let sql = "UPDATE report SET metrics = ?2, failures = ?3, alerts = ?4,
                       content_checksum = ?5, values_checksum = ?6, marks_checksum = ?7
                   WHERE id = ?1";
        db.prepare_cached(sql)?.execute([
            report,
            sums.metrics,
            sums.failures,
            sums.alerts,
            sums.content.whole(),
            sums.values.whole(),
            sums.marks.whole(),
        ])?;
        for row in seal(db, REPORT, "WHERE id = ?1", &[&report])? {
            total.reports.add(row);
        }
    }
    for row in seal(db, ALERT_CHANGE, "", &[])? {
        total.alert_changes.add(row);
    }
    total.write(db)
}

/// Gives rows their checksums, and returns these.
fn seal(
    db: &Connection,
    table: Table,
    condition: &str,
    values: &[&dyn ToSql],
) -> SqlResult<Vec<Checksum>> {
    let sql = format!("{} {condition}", table.select());
    let keys = |row: &Row<'_>| -> SqlResult<Vec<Value>> {
        (0..table.keys).map(|key| row.get(key)).collect()
    };
    // All are read before any is written.
    let rows = db
        .prepare_cached(&sql)?
        .query_map(values, |row| Ok((keys(row)?, table.checksum(row, 0)?)))?
        .collect::<SqlResult<Vec<_>>>()?;
    let names = table.columns().take(table.keys).zip(2..);
    let names: Vec<_> = names.map(|(name, number)| format!("{name} = ?{number}")).collect();
    let sql = format!("UPDATE {} SET checksum = ?1 WHERE {}", table.name, names.join(" AND "));
    let mut update = db.prepare_cached(&sql)?;
    let mut checksums = Vec::with_capacity(rows.len());
    for (keys, checksum) in rows {
        let short = Value::from(checksum.short());
        if update.execute(params_from_iter([short].into_iter().chain(keys)))? != 1 {
            return Err(damage(format!("a row of the table {} has no place", table.name)));
        }
        checksums.push(checksum);
    }
    Ok(checksums)
}

fn numbers(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> SqlResult<Vec<i64>> {
    db.prepare_cached(sql)?.query_map(values, |row| row.get(0))?.collect()
}
