//! Profiles of benchmarks, stored with the reports that they explain. A profile is a separate record that is only ever
//! added, like a withdrawal. Its content is deleted by [retention](super::Retention).

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{
    Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, Time, ToSql,
    ToSqlOutput, ValueRef, Written, limit_ns, params,
};

use super::{
    InvalidDocument, SqlResult, Store, StoreError,
    columns::time_ns,
    document::Kind,
    error::damage,
    prepare,
    rows::{name_row, project_row},
    tables::{PROFILE, is_known},
    withdrawals::STANDS,
};
use crate::model::{
    BenchmarkName, BranchName, PROFILE_BYTES_MAX, Profile, ProfileHash, ProfileInfo, ProfileKind,
    Report,
};

impl ToSql for ProfileHash {
    fn to_sql(&self) -> Written<'_> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for ProfileHash {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_blob()?.try_into().map(Self).map_err(FromSqlError::other)
    }
}

impl Store {
    /// Stores all of the profiles or none, and returns how many are new.
    pub fn insert_profiles(&self, profiles: &[Profile]) -> Result<usize, StoreError> {
        for profile in profiles {
            validate_profile(profile)?;
        }
        self.doing("storing profiles", || {
            let transaction = self.connection.writing()?;
            let mut new = 0;
            for profile in profiles {
                new += usize::from(insert_profile(&transaction, profile)?);
            }
            transaction.commit()?;
            Ok(new)
        })
    }

    /// The profiles of a report, by benchmark and kind, those of the whole command first.
    pub fn profiles(&self, report: Uuid) -> Result<Vec<ProfileInfo>, StoreError> {
        profiles(&self.connection, report).map_err(self.error("listing profiles"))
    }

    /// The content of a profile: gzip'd pprof. `None` if there is none, or retention has removed it.
    pub fn profile_content(&self, hash: ProfileHash) -> Result<Option<Vec<u8>>, StoreError> {
        content(&self.connection, hash).map_err(self.error("reading a profile"))
    }

    /// The newest profile of a benchmark and a kind before a report in its history, and the report that it belongs to:
    /// on its branch and testbed, or on those of its start point. Skips profiles without content, and those whose
    /// report began after `until`. If that time is unknown, skips reports with an alert about the benchmark, since they
    /// may contain the change to explain.
    pub fn profile_before(
        &self,
        report: &Report,
        benchmark: Option<&BenchmarkName>,
        kind: ProfileKind,
        until: Option<OffsetDateTime>,
    ) -> Result<Option<ProfileInfo>, StoreError> {
        before(&self.connection, report, benchmark, kind, until)
            .map_err(self.error("looking for an earlier profile"))
    }
}

pub(super) fn validate_profile(profile: &Profile) -> Result<(), InvalidDocument> {
    let about = &profile.about;
    let invalid = |reason: String| Err(InvalidDocument { uuid: about.uuid, reason });
    if time_ns(about.time).is_none() {
        return invalid(format!("its time {} is not between the years 1677 and 2262", about.time));
    }
    if about.bytes > PROFILE_BYTES_MAX as u64 {
        return invalid(format!(
            "the profile has {} bytes, and {PROFILE_BYTES_MAX} are the limit",
            about.bytes
        ));
    }
    if i64::try_from(about.samples).is_err() {
        return invalid(format!("the profile counts {} samples", about.samples));
    }
    match &profile.pprof {
        Some(pprof)
            if ProfileHash::of(pprof) != about.sha256 || pprof.len() as u64 != about.bytes =>
        {
            invalid("the profile is not the one that its hash and its size say".to_owned())
        }
        _ => Ok(()),
    }
}

/// Stores a profile, and returns whether it is new.
pub(super) fn insert_profile(db: &Connection, profile: &Profile) -> SqlResult<bool> {
    let Profile { about, pprof } = profile;
    if is_known(db, Kind::Profile, about.uuid)? {
        return Ok(false);
    }
    let ProfileInfo { uuid, report, benchmark, kind, tool, time, samples, sha256, bytes } = about;
    let benchmark = benchmark.as_ref().map(BenchmarkName::as_str);
    // Both were checked to fit.
    let [samples, bytes] =
        [*samples, *bytes].map(|number| i64::try_from(number).unwrap_or(i64::MAX));
    let values = params![uuid, report, benchmark, kind, tool, Time(*time), samples, sha256, bytes];
    PROFILE.insert(db, values)?;
    if let Some(pprof) = pprof {
        let sql =
            "INSERT INTO profile_content (hash, pprof) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        prepare(db, sql)?.execute(params![sha256, pprof])?;
    }
    Ok(true)
}

/// Metadata of a profile from columns named as in the table.
pub(super) fn info(row: &Row<'_>) -> SqlResult<ProfileInfo> {
    let number = |name| row.get::<_, i64>(name).map(i64::unsigned_abs);
    Ok(ProfileInfo {
        uuid: row.get("uuid")?,
        report: row.get("report")?,
        benchmark: row.get("benchmark")?,
        kind: row.get("kind")?,
        tool: row.get("tool")?,
        time: row.time("time_ns")?,
        samples: number("samples")?,
        sha256: row.get("hash")?,
        bytes: number("bytes")?,
    })
}

/// A profile with its content, if available.
pub(super) fn whole(db: &Connection, about: ProfileInfo) -> SqlResult<Profile> {
    let pprof = content(db, about.sha256)?;
    Ok(Profile { about, pprof })
}

fn content(db: &Connection, hash: ProfileHash) -> SqlResult<Option<Vec<u8>>> {
    let sql = "SELECT pprof FROM profile_content WHERE hash = ?1";
    let found: Option<Vec<u8>> =
        prepare(db, sql)?.query_row([hash], |row| row.get(0)).optional()?;
    match found {
        Some(pprof) if ProfileHash::of(&pprof) != hash => {
            Err(damage(format!("the content of the profile {hash} is not the one that was stored")))
        }
        found => Ok(found),
    }
}

fn profiles(db: &Connection, report: Uuid) -> SqlResult<Vec<ProfileInfo>> {
    let sql = format!(
        "{} WHERE report = ?1 ORDER BY benchmark NULLS FIRST, kind, uuid",
        PROFILE.select()
    );
    let mut statement = prepare(db, &sql)?;
    statement.query_map([report], info)?.collect()
}

fn before(
    db: &Connection,
    report: &Report,
    benchmark: Option<&BenchmarkName>,
    kind: ProfileKind,
    latest: Option<OffsetDateTime>,
) -> SqlResult<Option<ProfileInfo>> {
    let Some(project) = project_row(db, &report.project)? else { return Ok(None) };
    let Some(testbed) = name_row(db, "testbed", project, report.testbed.as_str())? else {
        return Ok(None);
    };
    let row = |name: &BranchName| name_row(db, "branch", project, name.as_str());
    let branch = row(&report.branch)?;
    let start = report.start_point.as_ref();
    let start_branch = start.map(|start| row(&start.branch)).transpose()?.flatten();
    let until = start.and_then(|start| start.until).map_or(i64::MAX, limit_ns);
    // An alert's benchmark is a row of names.
    let sql = format!(
        "SELECT pr.* FROM report r
         CROSS JOIN profile pr ON pr.report = r.uuid
         WHERE r.project = ?1 AND r.testbed = ?2 AND r.confirms IS NULL AND r.uuid <> ?3
           AND r.start_time_ns <= ?4
           AND (r.branch = ?5 AND r.epoch = ?6 OR r.branch = ?7 AND r.start_time_ns <= ?8)
           AND pr.kind = ?9 AND pr.benchmark IS NOT DISTINCT FROM ?10
           AND EXISTS (SELECT 1 FROM profile_content c WHERE c.hash = pr.hash)
           AND (?11 OR NOT EXISTS (
               SELECT 1 FROM alert a JOIN benchmark b ON b.id = a.benchmark
               WHERE a.report = r.id AND (?10 IS NULL OR b.name = ?10)))
           AND {STANDS}
         ORDER BY r.branch = ?5 DESC, r.start_time_ns DESC, r.uuid DESC LIMIT 1"
    );
    let values = params![
        project,
        testbed,
        report.uuid,
        limit_ns(latest.map_or(report.start_time, |latest| latest.min(report.start_time))),
        branch,
        report.epoch,
        start_branch,
        until,
        kind,
        benchmark.map(BenchmarkName::as_str),
        latest.is_some()
    ];
    prepare(db, &sql)?.query_row(values, info).optional()
}
