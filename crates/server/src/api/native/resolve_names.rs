//! Registers all names in a document. Names in the results stay, except a new name of something that the results call
//! differently.

use std::collections::{HashMap, HashSet};

use time::OffsetDateTime;
use wingbeat_track::{
    model::{BenchmarkName, BranchName, Measure, Report, Slug},
    remote::{self, Instructions},
};

use crate::{
    ApiError,
    api::{
        names::{Reach, check_name, is_another, known_measure, make},
        run::{Named, clone_thresholds, set_thresholds, thresholds},
        view::{branch_name, damaged, testbed_name},
    },
    database::{Database, Entity, Kind, NewEntity, Project, Start},
};

/// Finds or creates all entities of a report, in one transaction.
pub(super) fn resolve_names(
    database: &Database,
    project: &Project,
    report: &mut Report,
    instructions: &Instructions,
    (reach, now): (Reach, OffsetDateTime),
) -> Result<Named, ApiError> {
    database.together(|database| {
        let names = Names { database, project: project.id, reach, now };
        report.project = project.stored.clone();
        let is_new = names.known(Kind::Branch, report.branch.as_str())?.is_none();
        let branch = names.place(Kind::Branch, report.branch.as_str())?;
        let testbed = names.place(Kind::Testbed, report.testbed.as_str())?;
        report.branch = branch_name(&branch)?;
        report.testbed = testbed_name(&testbed)?;
        let may_start = is_new || reach == Reach::Project;
        let start =
            if may_start { names.start(report, instructions, &branch)? } else { Start::default() };
        names.benchmarks(report)?;
        let renamed = names.measures(report)?;
        let (is_stored, place) = (reach == Reach::Project, (&branch, &testbed));
        if is_stored {
            keep_thresholds(&names, project, instructions, &renamed, &start, place)?;
        }
        let thresholds = match is_stored || !instructions.thresholds_reset {
            true => thresholds(database, project, &branch, &testbed)?,
            false => Vec::new(),
        };
        Ok(Named {
            branch_name: report.branch.clone(),
            testbed_name: report.testbed.clone(),
            start,
            thresholds,
            branch,
        })
    })
}

struct Names<'r> {
    database: &'r Database,
    project: i64,
    reach: Reach,
    now: OffsetDateTime,
}

impl Names<'_> {
    /// Finds a branch or testbed by its name in the results, then by its display name.
    fn known(&self, kind: Kind, name: &str) -> Result<Option<Entity>, ApiError> {
        let stored = self.database.entity_stored(self.project, kind, name)?;
        Ok(match stored {
            Some(entity) => Some(entity),
            None => self.database.entity(self.project, kind, name)?,
        })
    }

    /// The same; created if absent.
    fn place(&self, kind: Kind, name: &str) -> Result<Entity, ApiError> {
        match self.known(kind, name)? {
            Some(entity) => self.reach.unarchived(self.database, entity, self.now),
            None => {
                check_name(kind, name)?;
                let new = NewEntity { name, slug: None, units: None };
                make(self.database, self.project, kind, &new, self.now)
            }
        }
    }

    /// Start point of the branch: from the report, or as set before.
    fn start(
        &self,
        report: &mut Report,
        instructions: &Instructions,
        branch: &Entity,
    ) -> Result<Start, ApiError> {
        let is_reset = instructions.start_point_reset;
        let Some(start) = &mut report.start_point else {
            let recorded = self.database.start(branch.id)?.unwrap_or_default();
            return Ok(Start { is_reset: is_reset || recorded.is_reset, ..recorded });
        };
        // A start point without results is allowed: it contributes no history.
        let name = start.branch.as_str();
        if self.database.entity_stored(self.project, Kind::Branch, name)?.is_none()
            && let Some(entity) = self.database.entity(self.project, Kind::Branch, name)?
        {
            start.branch = BranchName::new(&entity.stored).map_err(damaged)?;
        }
        Ok(Start {
            branch: Some(start.branch.to_string()),
            hash: start.hash.clone(),
            max_versions: Some(start.max_versions),
            is_reset,
        })
    }

    /// Renamed benchmarks keep their names in the results.
    fn benchmarks(&self, report: &mut Report) -> Result<(), ApiError> {
        let names: HashSet<_> =
            report.iterations.iter().flat_map(|it| &it.benchmarks).map(|it| &it.name).collect();
        let mut renamed: HashMap<BenchmarkName, BenchmarkName> = HashMap::new();
        for name in &names {
            let text = name.as_str();
            let stored = self.database.entity_stored(self.project, Kind::Benchmark, text)?;
            let entity = match stored {
                Some(entity) => entity,
                None => match self.database.entity_named(self.project, Kind::Benchmark, text)? {
                    None => {
                        let new = NewEntity { name: text, slug: None, units: None };
                        make(self.database, self.project, Kind::Benchmark, &new, self.now)?
                    }
                    Some(entity) => {
                        let stored = BenchmarkName::new(&entity.stored).map_err(damaged)?;
                        // Two benchmarks of one report must stay distinct.
                        if !names.contains(&stored) {
                            renamed.insert((*name).clone(), stored);
                        }
                        entity
                    }
                },
            };
            self.reach.unarchived(self.database, entity, self.now)?;
        }
        drop(names);
        let rename = |name: &mut BenchmarkName| {
            if let Some(stored) = renamed.get(name) {
                *name = stored.clone();
            }
        };
        if renamed.is_empty() {
            return Ok(());
        }
        for results in &mut report.iterations {
            results.benchmarks.iter_mut().for_each(|it| rename(&mut it.name));
            results.failures.iter_mut().for_each(|it| rename(&mut it.name));
        }
        report.verdicts.iter_mut().for_each(|it| rename(&mut it.benchmark));
        report.alerts.iter_mut().for_each(|it| rename(&mut it.benchmark));
        Ok(())
    }

    /// Replaces slugs of measures that differ here, and returns the mapping. Reports judged elsewhere use the slugs of
    /// their origin.
    fn measures(&self, report: &mut Report) -> Result<HashMap<Slug, Slug>, ApiError> {
        let is_new = report.verdicts.is_empty();
        let mut seen = HashSet::new();
        let mut renamed = HashMap::new();
        for (_, _, measure, _) in report.metrics() {
            if !seen.insert(&measure.slug) {
                continue;
            }
            if let Some(entity) = self.measure(measure, is_new)?
                && entity.stored != measure.slug.as_str()
            {
                renamed.insert(measure.slug.clone(), Slug::new(&entity.stored).map_err(damaged)?);
            }
        }
        let rename = |slug: &mut Slug| {
            if let Some(stored) = renamed.get(slug) {
                *slug = stored.clone();
            }
        };
        if !renamed.is_empty() {
            let benchmarks = report.iterations.iter_mut().flat_map(|it| &mut it.benchmarks);
            let metrics = benchmarks.flat_map(|it| &mut it.metrics);
            metrics.for_each(|(measure, _)| rename(&mut measure.slug));
            report.verdicts.iter_mut().for_each(|it| rename(&mut it.measure));
            report.alerts.iter_mut().for_each(|it| rename(&mut it.measure));
        }
        Ok(renamed)
    }

    /// Finds a measure by its name, then by its name in the results, or creates it; `None` if its name is taken.
    fn measure(&self, measure: &Measure, is_new: bool) -> Result<Option<Entity>, ApiError> {
        let (stored, name) = (measure.slug.as_str(), &*measure.name);
        let known = match is_new {
            true => known_measure(self.database, self.project, measure)?,
            false => {
                let by_slug = self.database.entity_stored(self.project, Kind::Measure, stored)?;
                // Without a distinct name, the slug identifies it.
                by_slug.filter(|entity| name == stored || !is_another(entity, measure))
            }
        };
        if let Some(entity) = known {
            return self.reach.unarchived(self.database, entity, self.now).map(Some);
        }
        if is_new {
            check_name(Kind::Measure, name)?;
        }
        let (slug, tailed) = (measure.slug.clone(), Slug::with_tail(name));
        for (name, slug) in [(name, slug.clone()), (name, tailed), (stored, slug)] {
            let new = NewEntity { name, slug: Some(slug), units: Some(&*measure.units) };
            let made = self.database.create_entity(self.project, Kind::Measure, &new, self.now)?;
            if let Ok(entity) = made {
                return Ok(Some(entity));
            }
        }
        Ok(None)
    }
}

/// Stores the client's thresholds, as far as the server supports them: for all benchmarks of a branch, testbed and
/// measure, with tests that other clients know.
fn keep_thresholds(
    names: &Names<'_>,
    project: &Project,
    instructions: &Instructions,
    renamed: &HashMap<Slug, Slug>,
    start: &Start,
    (branch, testbed): (&Entity, &Entity),
) -> Result<(), ApiError> {
    let (database, now) = (names.database, names.now);
    if let (true, Some(name)) = (instructions.clone_thresholds, &start.branch)
        && let Some(start) = database.entity_stored(project.id, Kind::Branch, name)?
    {
        clone_thresholds(database, project, &start, branch, now)?;
    }
    let mut models = Vec::new();
    for threshold in &instructions.thresholds {
        threshold.model.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        if remote::is_for_bencher(threshold)
            && let slug = renamed.get(&threshold.measure).unwrap_or(&threshold.measure)
            && let Some(measure) = names.measure(&Measure::from_slug(slug.clone()), false)?
        {
            models.push((measure.id, threshold.model));
        }
    }
    set_thresholds(
        database,
        project,
        (branch, testbed),
        &models,
        instructions.thresholds_reset,
        now,
    )
}
