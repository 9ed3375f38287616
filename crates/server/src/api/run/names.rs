//! Registers all names of a report, and stores its thresholds.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::model::{
    BenchmarkName, BranchName, Measure, Results, Slug, TestbedName, Threshold as ReportThreshold,
    ThresholdModel,
};

use crate::{
    ApiError,
    api::{
        names::{Reach, find_or_make, make, measure_entity},
        shapes::JsonNewReport,
        view::{branch_name, damaged, testbed_name},
    },
    database::{Database, Entity, Kind, NewEntity, Project, Start, Threshold, ThresholdFilter},
};

/// Things of a report.
#[derive(PartialEq)]
pub(in crate::api) struct Named {
    pub(in crate::api) branch: Entity,
    pub(in crate::api) branch_name: BranchName,
    pub(in crate::api) testbed_name: TestbedName,
    /// Start point of the branch, by names in the results.
    pub(in crate::api) start: Start,
    /// By measure.
    pub(in crate::api) thresholds: Vec<(Slug, ThresholdModel)>,
}

/// Finds or creates all entities of a report in one transaction, and replaces their names with those in the results.
/// Stores its thresholds, or returns them if they may judge this report only.
pub(super) fn name_all(
    database: &Database,
    project: &Project,
    new: &JsonNewReport,
    iterations: &mut [Results],
    (reach, now): (Reach, OffsetDateTime),
) -> Result<(Named, Vec<ReportThreshold>), ApiError> {
    database.together(|database| {
        let is_new = database.entity(project.id, Kind::Branch, &new.branch)?.is_none();
        let entity = |kind, id: &str| find_or_make(database, project.id, kind, id, (reach, now));
        let branch = entity(Kind::Branch, &new.branch)?;
        let testbed = entity(Kind::Testbed, &new.testbed)?;
        let mut names = Names { database, project: project.id, reach, now, known: Vec::new() };
        for results in iterations {
            names.rename(results)?;
        }
        let may_start = is_new || reach == Reach::Project;
        let start =
            if may_start { start(database, project, new, &branch)? } else { Start::default() };
        let models = models(database, project, new, (reach, now))?;
        let is_reset = new.thresholds.as_ref().and_then(|it| it.reset) == Some(true);
        let (mut stored, mut own) = (Vec::new(), Vec::new());
        match reach {
            Reach::Project => {
                clone_of_start(database, project, new, &branch, now)?;
                let models: Vec<_> = models.iter().map(|(it, model)| (it.id, *model)).collect();
                let place = (&branch, &testbed);
                set_thresholds(database, project, place, &models, is_reset, now)?;
            }
            Reach::Report => {
                for (measure, model) in models {
                    let measure = Slug::new(&measure.stored).map_err(damaged)?;
                    own.push(ReportThreshold { measure, benchmark: None, model });
                }
            }
        }
        if reach == Reach::Project || !is_reset {
            stored = thresholds(database, project, &branch, &testbed)?;
        }
        let named = Named {
            branch_name: branch_name(&branch)?,
            testbed_name: testbed_name(&testbed)?,
            start,
            thresholds: stored,
            branch,
        };
        Ok((named, own))
    })
}

/// Finds or creates benchmarks and measures.
struct Names<'r> {
    database: &'r Database,
    project: i64,
    reach: Reach,
    now: OffsetDateTime,
    /// Resolved measures, by the adapter's.
    known: Vec<(Measure, Measure)>,
}

impl Names<'_> {
    fn rename(&mut self, results: &mut Results) -> Result<(), ApiError> {
        // Names that differ in one output stay different benchmarks.
        let mut taken: HashMap<i64, String> = HashMap::new();
        let names = results.benchmarks.iter().map(|benchmark| benchmark.name.clone());
        let mut entities: HashMap<BenchmarkName, Entity> = HashMap::new();
        let names: Vec<_> = names.collect();
        for name in &names {
            let found = self.database.entity_named(self.project, Kind::Benchmark, name.as_str())?;
            if let Some(found) = found {
                taken.insert(found.id, name.to_string());
                entities.insert(name.clone(), found);
            }
        }
        for name in names {
            let entity = match entities.remove(&name) {
                Some(entity) => entity,
                None => self.benchmark(&name, &taken)?,
            };
            taken.insert(entity.id, name.to_string());
            entities.insert(name, self.reach.unarchived(self.database, entity, self.now)?);
        }
        for benchmark in &mut results.benchmarks {
            if let Some(entity) = entities.get(&benchmark.name) {
                benchmark.name = BenchmarkName::new(&entity.stored).map_err(damaged)?;
            }
            for (measure, _) in &mut benchmark.metrics {
                *measure = self.measure(measure)?;
            }
        }
        for failure in &mut results.failures {
            let id = failure.name.as_str();
            if let Some(entity) = self.database.entity(self.project, Kind::Benchmark, id)? {
                failure.name = BenchmarkName::new(&entity.stored).map_err(damaged)?;
            }
        }
        Ok(())
    }

    fn benchmark(
        &self,
        name: &BenchmarkName,
        taken: &HashMap<i64, String>,
    ) -> Result<Entity, ApiError> {
        let id = name.as_str();
        let found = self.database.entity(self.project, Kind::Benchmark, id)?;
        match found.filter(|found| !taken.contains_key(&found.id)) {
            Some(found) => Ok(found),
            None if Uuid::try_parse(id).is_ok() => {
                Err(ApiError::not_found(format!("there is no benchmark with the UUID {id}")))
            }
            None => {
                let new = NewEntity { name: id, slug: None, units: None };
                make(self.database, self.project, Kind::Benchmark, &new, self.now)
            }
        }
    }

    /// The measure in the results: its slug there, and its units if set by the user.
    fn measure(&mut self, measure: &Measure) -> Result<Measure, ApiError> {
        // Reports have few measures.
        if let Some((_, known)) = self.known.iter().find(|(given, _)| given == measure) {
            return Ok(known.clone());
        }
        let entity = measure_entity(self.database, self.project, measure, self.now)?;
        let entity = self.reach.unarchived(self.database, entity, self.now)?;
        let stored = Slug::new(&entity.stored).map_err(damaged)?;
        // Units that only repeat the name would start another series after a rename.
        let is_unreadable = stored == measure.slug && measure.label() != stored.as_str();
        let found = match measure.has_units() || is_unreadable {
            true => Measure { slug: stored, ..measure.clone() },
            false => match Measure::from_slug(stored) {
                known if known.is_known() => known,
                named => Measure { direction: measure.direction, kind: measure.kind, ..named },
            },
        };
        self.known.push((measure.clone(), found.clone()));
        Ok(found)
    }
}

/// Start point of the branch: from the report, or as set before.
fn start(
    database: &Database,
    project: &Project,
    new: &JsonNewReport,
    branch: &Entity,
) -> Result<Start, ApiError> {
    let asked = new.start_point.clone().unwrap_or_default();
    let is_reset = asked.reset.unwrap_or(false);
    let Some(name) = &asked.branch else {
        let said = database.start(branch.id)?.unwrap_or_default();
        return Ok(Start { is_reset: is_reset || said.is_reset, ..said });
    };
    // A start point without results is allowed: it contributes no history.
    let known = database.entity(project.id, Kind::Branch, name)?;
    Ok(Start {
        branch: Some(known.map_or_else(|| name.clone(), |entity| entity.stored)),
        hash: asked.hash.clone().filter(|hash| !hash.is_empty()),
        max_versions: asked.max_versions,
        is_reset,
    })
}

/// Activates the thresholds of the start point on the branch, if the report asks for that.
fn clone_of_start(
    database: &Database,
    project: &Project,
    new: &JsonNewReport,
    branch: &Entity,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    let start = new.start_point.clone().unwrap_or_default();
    if let (Some(name), Some(true)) = (&start.branch, start.clone_thresholds)
        && let Some(start) = database.entity(project.id, Kind::Branch, name)?
    {
        clone_thresholds(database, project, &start, branch, now)?;
    }
    Ok(())
}

/// Models of the report's thresholds, by measure.
fn models(
    database: &Database,
    project: &Project,
    new: &JsonNewReport,
    (reach, now): (Reach, OffsetDateTime),
) -> Result<Vec<(Entity, ThresholdModel)>, ApiError> {
    let mut models = Vec::new();
    let given = new.thresholds.as_ref().and_then(|thresholds| thresholds.models.as_ref());
    for (measure, model) in given.into_iter().flatten() {
        model.check().map_err(|error| ApiError::bad_request(error.to_string()))?;
        let measure = match database.entity(project.id, Kind::Measure, measure)? {
            Some(known) => known,
            None if reach == Reach::Report => continue,
            None => measure_entity(database, project.id, &Measure::named(measure), now)?,
        };
        models.push((measure, *model));
    }
    Ok(models)
}

/// Activates models by measure, and with a reset, ends those of other measures.
pub(in crate::api) fn set_thresholds(
    database: &Database,
    project: &Project,
    (branch, testbed): (&Entity, &Entity),
    models: &[(i64, ThresholdModel)],
    is_reset: bool,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    for (measure, model) in models {
        let place = (branch.id, testbed.id, *measure);
        database.set_threshold(project.id, place, Some(model), now)?;
    }
    if is_reset {
        for Threshold { measure, .. } in of_place(database, project, branch, testbed)? {
            if models.iter().all(|(named, _)| *named != measure) {
                database.set_threshold(project.id, (branch.id, testbed.id, measure), None, now)?;
            }
        }
    }
    Ok(())
}

/// Activates the models of one branch on another.
pub(in crate::api) fn clone_thresholds(
    database: &Database,
    project: &Project,
    from: &Entity,
    to: &Entity,
    now: OffsetDateTime,
) -> Result<(), ApiError> {
    let filter = ThresholdFilter { branch: Some(from.id), ..ThresholdFilter::default() };
    for threshold in database.thresholds(project.id, filter)? {
        if let Some(model) = threshold.model() {
            let place = (to.id, threshold.testbed, threshold.measure);
            database.set_threshold(project.id, place, Some(&model.settings), now)?;
        }
    }
    Ok(())
}

fn of_place(
    database: &Database,
    project: &Project,
    branch: &Entity,
    testbed: &Entity,
) -> Result<Vec<Threshold>, ApiError> {
    let filter =
        ThresholdFilter { branch: Some(branch.id), testbed: Some(testbed.id), measure: None };
    Ok(database.thresholds(project.id, filter)?)
}

/// Active models at a location, by measure.
pub(in crate::api) fn thresholds(
    database: &Database,
    project: &Project,
    branch: &Entity,
    testbed: &Entity,
) -> Result<Vec<(Slug, ThresholdModel)>, ApiError> {
    let mut found = Vec::new();
    for threshold in of_place(database, project, branch, testbed)? {
        let measure = database.entity_of_row(threshold.measure)?;
        if let (Some(measure), Some(model)) = (measure, threshold.model()) {
            let slug = Slug::new(&measure.stored).map_err(damaged)?;
            found.push((slug, model.settings));
        }
    }
    Ok(found)
}
