//! What one of the servers does every some seconds: totals, merges, and deletion.

use std::{
    collections::{BTreeSet, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use wingbeat_sql::Connection;

use super::{
    Profiles, ProfilesError, claim, index,
    levels::{Level, Span},
    merge, retain, totals,
};

/// How long a run merges, so that totals are not late.
const MERGING: Duration = Duration::from_secs(10);

/// How often unnamed files are looked for, and the age in seconds from which on they are left by a crash: another
/// server may be entering younger ones.
const SWEEP: Duration = Duration::from_secs(24 * 3600);
const UNNAMED_S: i64 = 3600;

impl Profiles {
    /// Merges completed periods, and deletes what exceeds the age or size limit, if no other server does. Returns false
    /// if more is left to do at once. Blocks.
    pub fn tidy(&self, now_ns: i64) -> Result<bool, ProfilesError> {
        self.tidy_at(now_ns, Instant::now())
    }

    pub(super) fn tidy_at(&self, now_ns: i64, at: Instant) -> Result<bool, ProfilesError> {
        let has_any = self.view(|db| {
            let sql =
                "SELECT 1 FROM profile_series UNION ALL SELECT 1 FROM profile_garbage LIMIT 1";
            Ok(db.prepare(sql)?.exists([])?)
        })?;
        if !has_any {
            return Ok(true);
        }
        match self.tidy_all(now_ns, at) {
            Err(ProfilesError::Superseded) => Ok(true),
            done => done,
        }
    }

    fn tidy_all(&self, now_ns: i64, at: Instant) -> Result<bool, ProfilesError> {
        // Also takes the claim.
        self.commit(|_| Ok(()))?;
        later(self.total(now_ns))?;
        let begin = Instant::now();
        let mut is_done = true;
        for level in [Level::TenMinutes, Level::Hour] {
            is_done &= later(self.merge_level(level, now_ns, begin))?.unwrap_or(true);
        }
        if self.view(|db| Ok(merge::has_old_windows(db, now_ns)?))? {
            is_done &= !self.commit(move |db| Ok(merge::drop_old_windows(db, now_ns)?))?;
        }
        self.expire(now_ns, at)?;
        later(self.sweep())?;
        is_done &= self.delete_garbage(now_ns)?;
        Ok(is_done)
    }

    /// Sums new windows of services with many series.
    fn total(&self, now_ns: i64) -> Result<(), ProfilesError> {
        if !self.view(|db| Ok(totals::missing(db)?))?.is_empty() {
            self.commit(move |db| Ok(totals::begin(db, now_ns)?))?;
        }
        for minute in self.view(|db| Ok(totals::wanted(db)?))? {
            let Some(about) = self.view(|db| Ok(merge::about(db, minute.total)?))? else {
                continue;
            };
            let span = Span { from_ns: minute.start_ns, until_ns: minute.end_ns() };
            let target = (minute.total, span);
            let (written, sums) =
                merge::write(&self.files, &about, (&minute.parts, &minute.former), target, |it| {
                    it
                })?;
            let path = written.block.path.clone();
            let enter = move |db: &Connection| {
                Ok(minute.enter(db, &written.block, written.bytes, (sums, now_ns))?)
            };
            self.enter_merged(path, now_ns, enter)?;
        }
        Ok(())
    }

    fn merge_level(
        &self,
        level: Level,
        now_ns: i64,
        begin: Instant,
    ) -> Result<bool, ProfilesError> {
        for wanted in self.view(|db| Ok(merge::wanted(db, level, now_ns)?))? {
            if begin.elapsed() > MERGING {
                return Ok(false);
            }
            self.merge(wanted, now_ns)?;
        }
        Ok(true)
    }

    fn merge(&self, wanted: merge::Wanted, now_ns: i64) -> Result<(), ProfilesError> {
        let found = self.view(|db| {
            let sources = merge::sources(db, wanted)?;
            Ok(merge::about(db, sources.series())?.map(|about| (sources, about)))
        })?;
        // The sources may have been deleted in the meantime.
        let Some((sources, about)) = found.filter(|(sources, _)| !sources.is_empty()) else {
            return Ok(());
        };
        let written = sources.write(&self.files, &about)?;
        let path = written.block.path.clone();
        self.enter_merged(path, now_ns, move |db| Ok(sources.replace(db, &written, now_ns)?))
    }

    /// Enters a merged file, or discards it if its sources have changed.
    fn enter_merged(
        &self,
        path: String,
        now_ns: i64,
        enter: impl FnOnce(&Connection) -> Result<bool, ProfilesError> + Send + 'static,
    ) -> Result<(), ProfilesError> {
        self.commit(move |db| {
            let part = db.writing()?;
            match enter(&part)? {
                true => part.commit()?,
                false => {
                    drop(part);
                    index::discard(db, [path.as_str()], now_ns)?;
                }
            }
            Ok(())
        })
    }

    /// Removes from the index what is too old, or too much.
    fn expire(&self, now_ns: i64, at: Instant) -> Result<(), ProfilesError> {
        let newest_ns = self.view(|db| Ok(index::newest_ns(db)?))?;
        let is_credible = {
            let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
            clock.is_credible(now_ns, at, newest_ns)
        };
        let oldest_ns = self.keep.oldest_ns(now_ns);
        if is_credible && self.view(|db| Ok(retain::has_before(db, oldest_ns)?))? {
            self.commit(move |db| Ok(retain::forget_before(db, None, oldest_ns, now_ns)?))?;
        }
        for project in self.view(projects)? {
            let limit_ns = self.view(|db| Ok(retain::too_much(db, &project, self.keep.bytes)?))?;
            if let Some(limit_ns) = limit_ns {
                self.commit(move |db| {
                    Ok(retain::forget_before(db, Some(&project), limit_ns, now_ns)?)
                })?;
            }
        }
        let has_empty = !self.view(|db| Ok(retain::empty(db)?))?.is_empty();
        let has_seen = is_credible && self.view(|db| Ok(retain::has_seen(db, now_ns)?))?;
        if has_empty || has_seen {
            self.commit(move |db| {
                retain::forget_empty(db)?;
                if has_seen {
                    retain::forget_seen(db, now_ns)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Deletes files that the index no longer names. Returns false if there are more.
    fn delete_garbage(&self, now_ns: i64) -> Result<bool, ProfilesError> {
        let garbage = self.view(|db| Ok(retain::garbage(db, now_ns)?))?;
        if garbage.is_empty() {
            return Ok(true);
        }
        let gone = self.files.remove(garbage)?;
        let is_done = gone.is_empty();
        if !is_done {
            self.commit(move |db| Ok(retain::forget_garbage(db, gone)?))?;
        }
        Ok(is_done)
    }

    /// Deletes what a crash left: old files that the index never named.
    fn sweep(&self) -> Result<(), ProfilesError> {
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
        if swept.is_some_and(|at| at.elapsed() < SWEEP) {
            return Ok(());
        }
        let unnamed = self.unnamed(UNNAMED_S)?;
        if !unnamed.is_empty() {
            tracing::info!("deleting {} files of profiles that a crash left", unnamed.len());
            self.files.remove(unnamed)?;
        }
        *swept = Some(Instant::now());
        Ok(())
    }

    /// Files older than this that the index does not name.
    pub(super) fn unnamed(&self, age_s: i64) -> Result<Vec<String>, ProfilesError> {
        // Listed first: what is entered meanwhile is then named.
        let old: Arc<Mutex<Vec<String>>> = Arc::default();
        let found = Arc::clone(&old);
        self.files.each(move |path, file_age_s| {
            if file_age_s >= age_s {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(path);
            }
        })?;
        let mut old = std::mem::take(&mut *old.lock().unwrap_or_else(PoisonError::into_inner));
        let mut named = HashSet::new();
        self.view(|db| {
            for table in ["profile_block", "profile_garbage"] {
                db.scan(&format!("SELECT path FROM {table}"), |row| {
                    named.insert(short(&row.get::<_, String>(0)?));
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        old.retain(|path| !named.contains(&short(path)));
        Ok(old)
    }

    /// Changes the index as the only server that tidies up. Fails if another one does.
    fn commit<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, ProfilesError> + Send + 'static,
    ) -> Result<T, ProfilesError> {
        let owner = self.owner;
        self.change(self.mark()?, move |db| match claim::take(db, owner, super::now_ns())? {
            true => job(db),
            false => Err(ProfilesError::Superseded),
        })
    }
}

/// A failed step, for example on a full disk, does not prevent deletion. It is repeated by a later run.
fn later<T>(done: Result<T, ProfilesError>) -> Result<Option<T>, ProfilesError> {
    match done {
        Err(error @ ProfilesError::Superseded) => Err(error),
        Err(error) => {
            tracing::warn!("merging profiles failed, will be retried: {error}");
            Ok(None)
        }
        Ok(done) => Ok(Some(done)),
    }
}

/// A path in 8 bytes. Two of the same would keep a file that a crash left.
fn short(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

fn projects(db: &Connection) -> Result<BTreeSet<String>, ProfilesError> {
    let sql = "SELECT DISTINCT project FROM profile_series";
    Ok(db.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
