//! Retention of profile contents. A report is small and kept forever. A profile is a hundred times larger, and only
//! needed to explain alerts.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use wingbeat_sql::{Connection, Row, params};

use super::{SqlResult, Store, StoreError, prepare, rows::project_row, withdrawals::STANDS};
use crate::model::{ProfileHash, ProjectName};

/// Which profile contents of a project are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest profiles kept per series (branch, testbed, benchmark, kind).
    pub newest: usize,
    /// Maximum size of all contents in bytes, unless those of alerts alone exceed it.
    pub bytes_max: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { newest: 10, bytes_max: 256 << 20 }
    }
}

/// A profile that has its content.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    hash: ProfileHash,
    bytes: u64,
    /// Branch, testbed, benchmark, kind.
    series: [String; 4],
    /// Its branch's start point, if that is another branch.
    start_branch: Option<String>,
    /// Start time of its report, nanoseconds since 1970.
    start_time_ns: i64,
    /// Whether its report has an alert about its benchmark that was not dismissed.
    explains: bool,
}

impl Retention {
    /// The contents to delete. Keeps those of alerts, and those that they are compared with.
    fn plan(&self, profiles: &[Kept]) -> HashSet<ProfileHash> {
        let mut series: HashMap<&[String; 4], Vec<&Kept>> = HashMap::new();
        for profile in profiles {
            series.entry(&profile.series).or_default().push(profile);
        }
        for of_series in series.values_mut() {
            of_series.sort_by_key(|profile| (Reverse(profile.start_time_ns), profile.hash));
        }
        let explaining = profiles.iter().filter(|profile| profile.explains);
        let protected = explaining.flat_map(|profile| [Some(profile), baseline(profile, &series)]);
        let mut staying: HashSet<_> = protected.flatten().map(|profile| profile.hash).collect();
        let bytes: HashMap<_, _> = profiles.iter().map(|it| (it.hash, it.bytes)).collect();
        let mut sum: u64 = staying.iter().filter_map(|hash| bytes.get(hash)).sum();
        let newest = series.values().flat_map(|of_series| of_series.iter().take(self.newest));
        let mut newest: Vec<&&Kept> = newest.collect();
        newest.sort_by_key(|profile| (Reverse(profile.start_time_ns), profile.hash));
        for profile in newest {
            if !staying.contains(&profile.hash) && sum + profile.bytes <= self.bytes_max {
                sum += profile.bytes;
                staying.insert(profile.hash);
            }
        }
        bytes.into_keys().filter(|hash| !staying.contains(hash)).collect()
    }
}

/// The profile that another one is compared with: the last one before it without an alert to explain, on its branch or
/// else on the branch's start point.
fn baseline<'k>(of: &Kept, series: &HashMap<&[String; 4], Vec<&'k Kept>>) -> Option<&'k Kept> {
    let on = |branch: &String| {
        let mut place = of.series.clone();
        place[0].clone_from(branch);
        let before =
            |profile: &&&'k Kept| !profile.explains && profile.start_time_ns <= of.start_time_ns;
        series.get(&place)?.iter().find(before).copied()
    };
    on(&of.series[0]).or_else(|| on(of.start_branch.as_ref()?))
}

impl Store {
    /// Deletes the contents of a project's profiles that need not be kept. Returns their number.
    pub fn tidy_profiles(
        &self,
        project: &ProjectName,
        retention: Retention,
    ) -> Result<usize, StoreError> {
        self.doing("removing old profiles", || {
            let transaction = self.connection.writing()?;
            let Some(project) = project_row(&transaction, project)? else { return Ok(0) };
            let going = retention.plan(&with_content(&transaction, project)?);
            // The same content may belong to another project, or to a report that arrives later.
            let sql = "DELETE FROM profile_content WHERE hash = ?1 AND NOT EXISTS (
                           SELECT 1 FROM profile pr LEFT JOIN report r ON r.uuid = pr.report
                           WHERE pr.hash = ?1 AND r.project IS DISTINCT FROM ?2)";
            let mut removed = 0;
            for hash in going {
                removed += prepare(&transaction, sql)?.execute(params![hash, project])?;
            }
            transaction.commit()?;
            Ok(removed)
        })
    }
}

fn with_content(db: &Connection, project: i64) -> SqlResult<Vec<Kept>> {
    let sql = format!(
        "SELECT pr.hash, pr.bytes, b.name, t.name, coalesce(pr.benchmark, ''), pr.kind, r.start_time_ns, s.name,
                {STANDS} AND EXISTS (
                    SELECT 1 FROM alert a JOIN benchmark n ON n.id = a.benchmark
                    WHERE a.report = r.id AND (pr.benchmark IS NULL OR n.name = pr.benchmark)
                      AND coalesce((SELECT c.status FROM alert_change c WHERE c.alert = a.uuid
                          ORDER BY c.time_ns DESC, c.uuid DESC LIMIT 1), a.status) <> 'dismissed')
         FROM report r
         CROSS JOIN profile pr ON pr.report = r.uuid
         JOIN branch b ON b.id = r.branch
         JOIN testbed t ON t.id = r.testbed
         LEFT JOIN branch s ON s.id = r.start_branch
         WHERE r.project = ?1 AND EXISTS (SELECT 1 FROM profile_content c WHERE c.hash = pr.hash)"
    );
    let kept = |row: &Row<'_>| {
        Ok(Kept {
            hash: row.get(0)?,
            bytes: row.get::<_, i64>(1)?.unsigned_abs(),
            series: [row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?],
            start_time_ns: row.get(6)?,
            start_branch: row.get(7)?,
            explains: row.get(8)?,
        })
    };
    prepare(db, &sql)?.query_map([project], kept)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Series, time, bytes, whether an alert needs it. The number is the hash.
    fn kept(number: u8, series: &str, start_time_ns: i64, bytes: u64, explains: bool) -> Kept {
        let series = [series, "ci", "parse", "wall"].map(str::to_owned);
        let hash = ProfileHash([number; 32]);
        Kept { hash, bytes, series, start_branch: None, start_time_ns, explains }
    }

    fn check(newest: usize, bytes_max: u64, profiles: &[Kept], expected: &[u8]) {
        let going = Retention { newest, bytes_max }.plan(profiles);
        let mut going: Vec<u8> = going.into_iter().map(|hash| hash.0[0]).collect();
        going.sort_unstable();
        assert_eq!(going, expected);
    }

    #[test]
    fn the_newest_of_each_series_stay() {
        let profiles: Vec<_> = (1..=5).map(|at| kept(at, "main", at.into(), 1, false)).collect();
        check(2, 100, &profiles, &[1, 2, 3]);
        let other = kept(9, "feature", 0, 1, false);
        check(2, 100, &[profiles, vec![other]].concat(), &[1, 2, 3]);
        check(2, 100, &[], &[]);
    }

    #[test]
    fn what_explains_an_alert_stays_with_its_baseline() {
        let mut profiles: Vec<_> =
            (1..=9).map(|at| kept(at, "main", at.into(), 1, false)).collect();
        profiles[3].explains = true;
        profiles[4].explains = true;
        check(1, 100, &profiles, &[1, 2, 6, 7, 8]);
        // Even beyond the maximum size.
        check(1, 1, &profiles, &[1, 2, 6, 7, 8, 9]);
        let feature = Kept { start_branch: Some("main".into()), ..kept(10, "feature", 8, 1, true) };
        check(1, 100, &[profiles, vec![feature]].concat(), &[1, 2, 6, 7]);
    }

    #[test]
    fn a_budget_takes_the_oldest_away() {
        let profiles: Vec<_> = (1..=4).map(|at| kept(at, "main", at.into(), 10, false)).collect();
        check(10, 25, &profiles, &[1, 2]);
        // Identical contents count once.
        let twice = [kept(1, "main", 1, 10, false), kept(1, "main", 2, 10, false)];
        check(10, 10, &twice, &[]);
    }
}
