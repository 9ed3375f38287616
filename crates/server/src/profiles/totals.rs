//! Totals of services with many series, so that a thousand pods are read from as few files as one: windows that arrived
//! are summed minute by minute into a series of their own, which is then merged like any other.

use wingbeat_sql::{Connection, Result, Row};

use super::{
    index::{self, Point, Total},
    levels::{Block, Level, MINUTE_NS, Span, TEN_MINUTES_NS, coarse_until},
};

/// Series of a service from which on it has a total. Fewer are read directly.
const SERIES_MIN: i64 = 16;

/// Windows that are summed per run.
const WINDOWS_MAX: usize = 20_000;

/// Windows of one minute to sum.
#[derive(Debug)]
pub(super) struct Minute {
    pub(super) total: i64,
    pub(super) start_ns: i64,
    pub(super) parts: Vec<Block>,
    /// What the total has of this minute so far, unless it is merged.
    pub(super) former: Vec<Block>,
}

/// Creates totals of services that have got many series.
pub(super) fn begin(db: &Connection, now_ns: i64) -> Result<()> {
    // From the first whole stretch on of which all windows are left.
    let from_ns = coarse_until(now_ns + TEN_MINUTES_NS - 1);
    for like in missing(db)? {
        index::create_total(db, like, from_ns)?;
    }
    Ok(())
}

/// One series each of those that need a total.
pub(super) fn missing(db: &Connection) -> Result<Vec<i64>> {
    let sql = "SELECT min(id) FROM profile_series WHERE total IS NULL AND total_from_ns IS NULL \
               GROUP BY project, service, name, types HAVING count(*) >= ?1";
    db.prepare(sql)?.query_map([SERIES_MIN], |row| row.get(0))?.collect()
}

/// Windows that totals lack, oldest first.
pub(super) fn wanted(db: &Connection) -> Result<Vec<Minute>> {
    let sql = format!(
        "SELECT one.id, one.series, one.start_ns, one.end_ns, one.windows, one.path, series.total \
         FROM profile_block AS one JOIN profile_series AS series ON series.id = one.series \
         WHERE one.is_totalled = 0 AND series.total IS NOT NULL ORDER BY series.total, one.start_ns LIMIT {WINDOWS_MAX}"
    );
    let mut minutes: Vec<Minute> = Vec::new();
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (block, total) = (index::block_of(&row)?, row.get(6)?);
        let start_ns = block.start_ns.div_euclid(MINUTE_NS) * MINUTE_NS;
        match minutes.last_mut().filter(|it| (it.total, it.start_ns) == (total, start_ns)) {
            Some(minute) => minute.parts.push(block),
            None => {
                let (parts, former) = (vec![block], Vec::new());
                minutes.push(Minute { total, start_ns, parts, former });
            }
        }
    }
    for minute in &mut minutes {
        let condition = "series = ?1 AND level = 0 AND start_ns = ?2 AND is_merged = 0";
        minute.former = index::blocks(db, condition, &[minute.total, minute.start_ns])?;
    }
    Ok(minutes)
}

impl Minute {
    pub(super) fn end_ns(&self) -> i64 {
        self.start_ns + MINUTE_NS
    }

    /// Adds the sum to the index. False if a part has been deleted or summed in the meantime.
    pub(super) fn enter(
        &self,
        db: &Connection,
        block: &Block,
        bytes: i64,
        (sums, now_ns): (Vec<i64>, i64),
    ) -> Result<bool> {
        let (ids, former) = (index::ids(&self.parts), index::ids(&self.former));
        let sql = format!(
            "UPDATE profile_block SET is_totalled = 1 WHERE is_totalled = 0 AND id IN ({ids})"
        );
        if db.execute(&sql, [])? != self.parts.len() {
            return Ok(false);
        }
        if !self.former.is_empty() {
            let sql = format!("DELETE FROM profile_block WHERE is_merged = 0 AND id IN ({former})");
            if db.execute(&sql, [])? != self.former.len() {
                return Ok(false);
            }
            index::discard(db, self.former.iter().map(|it| it.path.as_str()), now_ns)?;
        }
        if block.windows == 0 {
            return Ok(true);
        }
        index::add_block(db, Level::Window, block, bytes, true)?;
        let sql = "SELECT shown FROM profile_series WHERE id = ?1";
        let shown: i64 = db.query_row(sql, [self.total], |row| row.get(0))?;
        let (start_ns, duration_ns) = (self.start_ns, MINUTE_NS);
        let point = Point { start_ns, duration_ns, windows: 0.0, sums };
        index::add_point(db, self.total, &point, usize::try_from(shown).unwrap_or(0))?;
        let sql = "UPDATE profile_point SET windows = ?3 WHERE series = ?1 AND start_ns = ?2";
        let windows = self.windows_of_each(db)?;
        db.execute(sql, wingbeat_sql::params![self.total, start_ns, windows])?;
        let sql = "UPDATE profile_series SET newest_ns = ?2 WHERE id = ?1 AND newest_ns < ?2";
        let newest_ns = self.parts.iter().map(|it| it.end_ns).max().unwrap_or(start_ns);
        db.execute(sql, [self.total, newest_ns])?;
        Ok(true)
    }

    /// Windows of each series in this minute, on average.
    fn windows_of_each(&self, db: &Connection) -> Result<f64> {
        let sql = "SELECT count(*), count(DISTINCT series) FROM profile_block WHERE level = 0 AND start_ns >= ?2 \
                   AND start_ns < ?3 AND series IN (SELECT id FROM profile_series WHERE total = ?1)";
        let read = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
        let (windows, series) =
            db.query_row(sql, [self.total, self.start_ns, self.end_ns()], read)?;
        Ok(windows as f64 / series.max(1) as f64)
    }
}

/// The total of these series, if they are all that it sums.
pub(super) fn of_all(db: &Connection, series: &[i64]) -> Result<Option<Total>> {
    let Some(first) = series.first() else { return Ok(None) };
    let sql = "SELECT total.id, total.total_from_ns, (SELECT count(*) FROM profile_series AS other \
               WHERE other.total = total.id) \
               FROM profile_series AS one JOIN profile_series AS total ON total.id = one.total WHERE one.id = ?1";
    let read = |row: &Row<'_>| {
        let total = Total { id: row.get(0)?, from_ns: row.get(1)? };
        Ok((total, row.get::<_, i64>(2)?))
    };
    let mut statement = db.prepare(sql)?;
    let found = statement.query_map([*first], read)?.next().transpose()?;
    Ok(found.filter(|(_, members)| *members == series.len() as i64).map(|(total, _)| total))
}

/// Windows of a range that a total lacks yet.
pub(super) fn rest(db: &Connection, total: i64, span: Span) -> Result<Vec<Block>> {
    let condition = "is_totalled = 0 AND start_ns >= ?2 AND start_ns < ?3 \
                     AND series IN (SELECT id FROM profile_series WHERE total = ?1)";
    index::blocks(db, condition, &[total, span.from_ns, span.until_ns])
}

/// Number of series in a total with data in a range.
pub(super) fn members(db: &Connection, total: i64, span: Span) -> Result<usize> {
    let sql = "SELECT count(*) FROM profile_series AS one WHERE total = ?1 AND EXISTS (SELECT 1 FROM profile_point \
               WHERE series = one.id AND start_ns >= ?2 AND start_ns < ?3)";
    let count: i64 = db.query_row(sql, [total, span.from_ns, span.until_ns], |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(0))
}
