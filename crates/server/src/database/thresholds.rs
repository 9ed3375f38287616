//! Thresholds: for each branch, testbed and measure, the active model and its predecessors.

use time::OffsetDateTime;
use uuid::{Builder, Uuid};
use wingbeat_sql::{
    Connection, Error, OptionalExtension as _, Result as SqlResult, Row, Time, params,
};
use wingbeat_track::model::{ThresholdModel, threshold::Test};

use super::{Database, Kind, Project, StoreError};

/// A stored threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// Row.
    pub id: i64,
    pub uuid: Uuid,
    /// Rows of entities.
    pub branch: i64,
    pub testbed: i64,
    pub measure: i64,
    pub created: OffsetDateTime,
    pub modified: OffsetDateTime,
    /// Oldest first. The last one is active, unless it was replaced.
    pub models: Vec<Model>,
}

/// A model of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub uuid: Uuid,
    pub settings: ThresholdModel,
    pub created: OffsetDateTime,
    pub replaced: Option<OffsetDateTime>,
}

/// Filter of thresholds, by rows of entities. `None` matches all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThresholdFilter {
    pub branch: Option<i64>,
    pub testbed: Option<i64>,
    pub measure: Option<i64>,
}

const SELECT: &str =
    "SELECT id, uuid, branch, testbed, measure, created_ns, modified_ns FROM threshold";

/// Rows of a branch, a testbed and a measure.
type Place = (i64, i64, i64);

impl Threshold {
    /// What judges a place without a threshold of its own: `auto`, unless the project turned that off.
    pub fn default_of(project: &Project, place: Place, since: OffsetDateTime) -> Self {
        let uuid = default_uuid(place);
        let settings = ThresholdModel::new(Test::Auto);
        let model = Model { uuid, settings, created: since, replaced: None };
        let (branch, testbed, measure) = place;
        Self {
            id: 0,
            uuid,
            branch,
            testbed,
            measure,
            created: since,
            modified: since,
            models: project.judges_by_default.then_some(model).into_iter().collect(),
        }
    }

    /// Whether no row has it.
    pub fn is_default(&self) -> bool {
        self.id == 0
    }

    /// The active model.
    pub fn model(&self) -> Option<&Model> {
        self.models.last().filter(|model| model.replaced.is_none())
    }

    /// The model that was active at a time.
    pub fn model_at(&self, time: OffsetDateTime) -> Option<&Model> {
        let is_in_force = |model: &&Model| {
            model.created <= time && model.replaced.is_none_or(|replaced| replaced > time)
        };
        self.models.iter().rev().find(is_in_force)
    }
}

impl Database {
    /// Thresholds of a project, oldest first.
    pub fn thresholds(
        &self,
        project: i64,
        filter: ThresholdFilter,
    ) -> Result<Vec<Threshold>, StoreError> {
        self.doing("listing thresholds", || {
            let sql = format!(
                "{SELECT} WHERE project = ?1 AND (branch = ?2 OR ?2 IS NULL)
                 AND (testbed = ?3 OR ?3 IS NULL) AND (measure = ?4 OR ?4 IS NULL) ORDER BY id"
            );
            let values = params![project, filter.branch, filter.testbed, filter.measure];
            let mut statement = self.db().prepare(&sql)?;
            let found = statement.query_map(values, threshold)?;
            found.map(|it| with_models(self.db(), it?)).collect::<SqlResult<Vec<_>>>()
        })
    }

    /// The threshold with this UUID. That of a default is of the threshold that replaced it, if any.
    pub fn threshold(
        &self,
        project: &Project,
        uuid: Uuid,
    ) -> Result<Option<Threshold>, StoreError> {
        if let Some(place) = place_of(uuid) {
            return self.threshold_at(project, place);
        }
        self.doing("looking for a threshold", || {
            let sql = format!("{SELECT} WHERE project = ?1 AND uuid = ?2");
            let mut statement = self.db().prepare(&sql)?;
            let found = statement.query_row(params![project.id, uuid], threshold).optional()?;
            found.map(|it| with_models(self.db(), it)).transpose()
        })
    }

    /// The threshold of a place, or its default. `None` if the project has no such place.
    fn threshold_at(
        &self,
        project: &Project,
        place: Place,
    ) -> Result<Option<Threshold>, StoreError> {
        let (branch, testbed, measure) = place;
        let kinds = [(branch, Kind::Branch), (testbed, Kind::Testbed), (measure, Kind::Measure)];
        let mut since = project.created;
        for (row, kind) in kinds {
            match self.entity_in(project.id, row)? {
                Some(entity) if entity.kind == kind => since = since.max(entity.created),
                _ => return Ok(None),
            }
        }
        let filter = ThresholdFilter {
            branch: Some(branch),
            testbed: Some(testbed),
            measure: Some(measure),
        };
        let known = self.thresholds(project.id, filter)?.pop();
        Ok(Some(known.unwrap_or_else(|| Threshold::default_of(project, place, since))))
    }

    /// Activates a model, or none. Creates the threshold if absent, unless there is no model. Does nothing if the
    /// settings are already active.
    pub fn set_threshold(
        &self,
        project: i64,
        (branch, testbed, measure): (i64, i64, i64),
        settings: Option<&ThresholdModel>,
        now: OffsetDateTime,
    ) -> Result<Option<Threshold>, StoreError> {
        let doing = "keeping a threshold";
        let find = || {
            let sql = format!("{SELECT} WHERE branch = ?1 AND testbed = ?2 AND measure = ?3");
            let mut statement = self.db().prepare(&sql)?;
            let found =
                statement.query_row(params![branch, testbed, measure], threshold).optional()?;
            found.map(|it| with_models(self.db(), it)).transpose()
        };
        let known = self.doing(doing, find)?;
        let active = known.as_ref().and_then(Threshold::model).map(|model| &model.settings);
        if active == settings {
            return Ok(known);
        }
        self.write(doing, |db| {
            let known = match find()? {
                Some(known) => known,
                None => {
                    db.prepare(
                        "INSERT INTO threshold
                             (uuid, project, branch, testbed, measure, created_ns, modified_ns)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
                    )?
                    .execute(params![
                        Uuid::now_v7(),
                        project,
                        branch,
                        testbed,
                        measure,
                        Time(now)
                    ])?;
                    find()?.ok_or(Error::NoRow)?
                }
            };
            replace(db, known.id, settings, now)?;
            find()
        })
    }

    /// Deletes a threshold with all its models.
    pub fn delete_threshold(&self, id: i64) -> Result<(), StoreError> {
        self.execute("deleting a threshold", "DELETE FROM threshold WHERE id = ?1", [id])
    }
}

/// UUID of the default of a place: of version 8, with the rows in it, so that it can be looked up.
fn default_uuid((branch, testbed, measure): Place) -> Uuid {
    // A row beyond is of no place, so its UUID is not found.
    let bytes = |row: i64| u32::try_from(row).unwrap_or(u32::MAX).to_be_bytes();
    let mut all = [0; 16];
    all[..4].copy_from_slice(&bytes(branch));
    all[12..].copy_from_slice(&bytes(testbed));
    let [first, second, third, fourth] = bytes(measure);
    all[4..6].copy_from_slice(&[first, second]);
    all[10..12].copy_from_slice(&[third, fourth]);
    Builder::from_custom_bytes(all).into_uuid()
}

/// The place of a default's UUID; `None` for others.
fn place_of(uuid: Uuid) -> Option<Place> {
    let all = uuid.as_bytes();
    let row = |bytes: [u8; 4]| i64::from(u32::from_be_bytes(bytes));
    let place = (
        row([all[0], all[1], all[2], all[3]]),
        row([all[12], all[13], all[14], all[15]]),
        row([all[4], all[5], all[10], all[11]]),
    );
    (default_uuid(place) == uuid).then_some(place)
}

fn replace(
    db: &Connection,
    threshold: i64,
    settings: Option<&ThresholdModel>,
    now: OffsetDateTime,
) -> SqlResult<()> {
    db.prepare("UPDATE model SET replaced_ns = ?2 WHERE threshold = ?1 AND replaced_ns IS NULL")?
        .execute(params![threshold, Time(now)])?;
    db.prepare("UPDATE threshold SET modified_ns = ?2 WHERE id = ?1")?
        .execute(params![threshold, Time(now)])?;
    let Some(settings) = settings else { return Ok(()) };
    db.prepare(
        "INSERT INTO model (uuid, threshold, test, min_sample_size, max_sample_size, window_s,
                            lower_boundary, upper_boundary, created_ns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        Uuid::now_v7(),
        threshold,
        settings.test,
        settings.min_sample_size,
        settings.max_sample_size,
        settings.window,
        settings.lower_boundary,
        settings.upper_boundary,
        Time(now)
    ])?;
    Ok(())
}

fn threshold(row: &Row<'_>) -> SqlResult<Threshold> {
    Ok(Threshold {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        branch: row.get("branch")?,
        testbed: row.get("testbed")?,
        measure: row.get("measure")?,
        created: row.time("created_ns")?,
        modified: row.time("modified_ns")?,
        models: Vec::new(),
    })
}

fn with_models(db: &Connection, threshold: Threshold) -> SqlResult<Threshold> {
    let sql = "SELECT uuid, test, min_sample_size, max_sample_size, window_s, lower_boundary,
                      upper_boundary, created_ns, replaced_ns
               FROM model WHERE threshold = ?1 ORDER BY id";
    let mut statement = db.prepare(sql)?;
    let models = statement.query_map([threshold.id], model)?.collect::<SqlResult<_>>()?;
    Ok(Threshold { models, ..threshold })
}

fn model(row: &Row<'_>) -> SqlResult<Model> {
    Ok(Model {
        uuid: row.get("uuid")?,
        settings: ThresholdModel {
            test: row.get("test")?,
            min_sample_size: row.get("min_sample_size")?,
            max_sample_size: row.get("max_sample_size")?,
            window: row.get("window_s")?,
            lower_boundary: row.get("lower_boundary")?,
            upper_boundary: row.get("upper_boundary")?,
        },
        created: row.time("created_ns")?,
        replaced: row.optional_time("replaced_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use wingbeat_track::model::threshold::Test;

    use super::*;
    use crate::database::{
        Kind, NewEntity,
        tests::{now, on_both_with_project},
    };

    #[test]
    fn models_are_replaced_and_remembered() {
        on_both_with_project(|database, project| {
            let row = |kind| {
                let new = NewEntity { name: "a", slug: None, units: None };
                let made = database.create_entity(project, kind, &new, now()).expect("written");
                made.expect("made").id
            };
            let place = (row(Kind::Branch), row(Kind::Testbed), row(Kind::Measure));
            let share = |upper| ThresholdModel::new(Test::Percentage).within(None, Some(upper));
            let at = |seconds| now() + Duration::seconds(seconds);
            let set = |model: Option<&ThresholdModel>, seconds| {
                database.set_threshold(project, place, model, at(seconds)).expect("written")
            };
            assert_eq!(set(None, 0), None, "there is nothing to remove");
            set(Some(&share(0.1)), 1);
            set(Some(&share(0.1)), 2);
            let two = set(Some(&share(0.2)), 3).expect("a threshold");
            assert_eq!(two.models.len(), 2);
            assert_eq!(two.model_at(at(2)).map(|model| model.settings), Some(share(0.1)));
            assert_eq!(two.model_at(at(3)).map(|model| model.settings), Some(share(0.2)));
            assert_eq!(two.model_at(at(0)), None);
            // A clock step backwards does not revive a replaced model.
            let three = set(Some(&share(0.3)), -60).expect("a threshold");
            assert_eq!(three.model().map(|model| model.settings), Some(share(0.3)));
            let none = set(None, 4).expect("a threshold");
            assert_eq!((none.uuid, none.model()), (two.uuid, None));
            let all = database.thresholds(project, ThresholdFilter::default()).expect("read");
            assert_eq!(all, [none]);
        });
    }

    #[test]
    fn a_place_without_a_threshold_has_a_default() {
        on_both_with_project(|database, project| {
            let make = |kind| {
                let new = NewEntity { name: "a", slug: None, units: None };
                let made = database.create_entity(project, kind, &new, now()).expect("written");
                made.expect("made").id
            };
            let place = (make(Kind::Branch), make(Kind::Testbed), make(Kind::Measure));
            let projects = database.projects().expect("read");
            let project = projects.into_iter().find(|it| it.id == project).expect("a project");
            let find = |place: Place, project: &Project| {
                database.threshold(project, default_uuid(place)).expect("read")
            };
            let test = |found: &Threshold| found.model().map(|model| model.settings.test);
            let found = find(place, &project).expect("a default");
            assert!(found.is_default() && test(&found) == Some(Test::Auto), "{found:?}");
            let off = Project { judges_by_default: false, ..project.clone() };
            assert_eq!(find(place, &off).as_ref().and_then(test), None);
            // Rows of other kinds, of other projects, and of none.
            assert_eq!(find((place.1, place.0, place.2), &project), None);
            assert_eq!(find((place.0, place.1, place.2 + 1), &project), None);
            assert_eq!(find(place, &Project { id: project.id + 1, ..project.clone() }), None);
            let share = ThresholdModel::new(Test::Percentage).within(None, Some(0.1));
            let own = database.set_threshold(project.id, place, Some(&share), now());
            assert_eq!(find(place, &project), own.expect("written"));
        });
    }

    #[test]
    fn defaults_are_told_from_other_thresholds() {
        let places = [(1, 2, 3), (1, 70_000, 1 << 31), (4_000_000_000, 1, 65_536)];
        for place in places {
            assert_eq!(place_of(default_uuid(place)), Some(place));
        }
        for _ in 0..1000 {
            assert_eq!(place_of(Uuid::now_v7()), None);
        }
        assert_eq!(place_of(Uuid::nil()), None);
    }
}
