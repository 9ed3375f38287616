//! Resolves names in bodies: by UUID, slug or name, in this order. Creates an entity for a new name.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::model::{
    BenchmarkName, BranchName, InvalidName, Measure, MeasureName, Slug, TestbedName,
};

use crate::{
    ApiError,
    access::Caller,
    database::{Conflict, Database, Entity, EntityChange, Kind, NewEntity},
};

/// What storing a report may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Also thresholds, heads of branches and archived names of the project.
    Project,
    /// Nothing but the report and names that are new: anybody may have sent it.
    Report,
}

impl Reach {
    pub(super) fn of(caller: &Caller) -> Self {
        match caller {
            Caller::Anonymous => Self::Report,
            Caller::User { .. } | Caller::ProjectKey { .. } => Self::Project,
        }
    }

    /// Unarchives an entity that a report names.
    pub(super) fn unarchived(
        self,
        database: &Database,
        entity: Entity,
        now: OffsetDateTime,
    ) -> Result<Entity, ApiError> {
        match self {
            Self::Project => unarchived(database, entity, now),
            Self::Report => Ok(entity),
        }
    }
}

/// Finds an entity by UUID, slug or name; 404 if absent.
pub(super) fn find(
    database: &Database,
    project: i64,
    kind: Kind,
    id: &str,
) -> Result<Entity, ApiError> {
    let missing = || {
        let word = kind.word();
        ApiError::not_found(format!(
            "this project has no {word} with the UUID, slug or name {id:?}"
        ))
    };
    database.entity(project, kind, id)?.ok_or_else(missing)
}

/// Finds an entity, or creates it by name. An unknown UUID is an error. Unarchives an archived entity.
pub(super) fn find_or_make(
    database: &Database,
    project: i64,
    kind: Kind,
    id: &str,
    (reach, now): (Reach, OffsetDateTime),
) -> Result<Entity, ApiError> {
    match database.entity(project, kind, id)? {
        Some(known) => reach.unarchived(database, known, now),
        None if Uuid::try_parse(id).is_ok() => find(database, project, kind, id),
        None => {
            check_name(kind, id)?;
            make(database, project, kind, &NewEntity { name: id, slug: None, units: None }, now)
        }
    }
}

/// Finds or creates the entity of an adapter's measure.
pub(super) fn measure_entity(
    database: &Database,
    project: i64,
    measure: &Measure,
    now: OffsetDateTime,
) -> Result<Entity, ApiError> {
    if let Some(known) = known_measure(database, project, measure)? {
        return Ok(known);
    }
    let name = &*measure.name;
    if Uuid::try_parse(name).is_ok() {
        return find(database, project, Kind::Measure, name);
    }
    check_name(Kind::Measure, name)?;
    let is_taken = database.entity(project, Kind::Measure, measure.slug.as_str())?.is_some();
    let slug = if is_taken { Slug::with_tail(name) } else { measure.slug.clone() };
    let new = NewEntity { name, slug: Some(slug), units: Some(&*measure.units) };
    make(database, project, Kind::Measure, &new, now)
}

/// Finds the entity of an adapter's measure by name; a renamed one also by its slug in the results.
pub(super) fn known_measure(
    database: &Database,
    project: i64,
    measure: &Measure,
) -> Result<Option<Entity>, ApiError> {
    let stored = |slug: &Slug| database.entity_stored(project, Kind::Measure, slug.as_str());
    let entity = |id: &str| database.entity(project, Kind::Measure, id);
    let name = &*measure.name;
    if !measure.is_known() {
        if let Some(known) = database.entity_named(project, Kind::Measure, name)? {
            return Ok(Some(known));
        }
        if let Some(known) = stored(&Slug::with_tail(name))? {
            return Ok(Some(known));
        }
    }
    for slug in [&measure.slug, &Slug::of(name)] {
        let found = match stored(slug)? {
            None => entity(slug.as_str())?,
            found => found,
        };
        if let Some(known) = found.filter(|known| !is_another(known, measure)) {
            return Ok(Some(known));
        }
    }
    if measure.is_known() { Ok(entity(name)?) } else { Ok(None) }
}

/// Whether an entity has a measure's slug by coincidence, not by a rename.
pub(super) fn is_another(entity: &Entity, measure: &Measure) -> bool {
    let theirs = Measure::named(&entity.name);
    let made_of_name = Slug::new(&entity.stored).map(|slug| Measure { slug, ..theirs });
    let measure = Measure { slug: Slug::of(&measure.name), ..measure.clone() };
    made_of_name.is_ok_and(|theirs| theirs.slug == measure.slug && !theirs.is(&measure))
}

/// Creates an entity; 409 if its name or slug is taken.
pub(super) fn make(
    database: &Database,
    project: i64,
    kind: Kind,
    new: &NewEntity<'_>,
    now: OffsetDateTime,
) -> Result<Entity, ApiError> {
    check_path(new.name)?;
    let made = database.create_entity(project, kind, new, now)?;
    made.map_err(|conflict| refusal(kind, new.name, conflict))
}

fn unarchived(
    database: &Database,
    entity: Entity,
    now: OffsetDateTime,
) -> Result<Entity, ApiError> {
    if entity.archived.is_none() {
        return Ok(entity);
    }
    let change = EntityChange { is_archived: Some(false), ..EntityChange::default() };
    let changed = database.change_entity(entity.id, &change, now)?;
    Ok(changed.and_then(Result::ok).unwrap_or(entity))
}

/// Why creating or changing an entity failed.
pub(super) fn refusal(kind: Kind, name: &str, conflict: Conflict) -> ApiError {
    let word = kind.word();
    ApiError::conflict(match conflict {
        Conflict::Name => format!("this project has a {word} with the name {name:?} already"),
        Conflict::Slug => format!("this project has a {word} with that slug already"),
        Conflict::Thresholds => {
            format!("thresholds depend on the {word} {name:?}: delete those first, or archive it")
        }
    })
}

pub(crate) fn check_name(kind: Kind, name: &str) -> Result<(), ApiError> {
    let checked: Result<(), InvalidName> = match kind {
        Kind::Branch => BranchName::new(name).map(drop),
        Kind::Testbed => TestbedName::new(name).map(drop),
        Kind::Benchmark => BenchmarkName::new(name).map(drop),
        Kind::Measure => MeasureName::new(name).map(drop),
    };
    checked.map_err(|error| ApiError::bad_request(error.to_string()))?;
    check_path(name)
}

/// Rejects names that no address can have: browsers resolve these parts of a path, however they are encoded.
pub(super) fn check_path(name: &str) -> Result<(), ApiError> {
    match name {
        "." | ".." => Err(ApiError::bad_request(format!(
            "{name:?} cannot be a name, because it has no page: choose another one"
        ))),
        _ => Ok(()),
    }
}

/// Validates a measure's units: one short line, like names.
pub(super) fn check_units(units: Option<&str>) -> Result<(), ApiError> {
    let checked = units.map(|units| {
        TestbedName::new(units).map_err(|error| InvalidName { what: "measure's unit", ..error })
    });
    checked.transpose().map(drop).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Validates a commit hash, which pages display and link.
pub(super) fn check_hash(hash: Option<&str>) -> Result<(), ApiError> {
    let is_hash =
        |hash: &str| hash.len() <= 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    match hash {
        Some(hash) if !is_hash(hash) => Err(ApiError::bad_request(format!(
            "{:?} is not a commit hash: at most 64 hexadecimal digits are allowed",
            hash.chars().take(80).collect::<String>()
        ))),
        _ => Ok(()),
    }
}

/// Parses a requested slug.
pub(super) fn slug(text: Option<&str>) -> Result<Option<Slug>, ApiError> {
    let checked = text.map(Slug::new).transpose();
    checked.map_err(|error| ApiError::bad_request(error.to_string()))
}
