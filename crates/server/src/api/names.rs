//! Names in bodies: a UUID, a slug or a name, looked up in this order. A new name becomes a new thing.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::model::{BenchmarkName, BranchName, InvalidName, Measure, Slug, TestbedName};

use crate::{
    ApiError,
    registry::{Conflict, Kind, NewThing, Registry, Thing, ThingChange},
};

/// The thing of that UUID, slug or name. 404 where there is none.
pub(super) fn find(
    registry: &Registry,
    project: i64,
    kind: Kind,
    id: &str,
) -> Result<Thing, ApiError> {
    let missing = || {
        let word = kind.word();
        ApiError::not_found(format!(
            "this project has no {word} with the UUID, slug or name {id:?}"
        ))
    };
    registry.thing(project, kind, id)?.ok_or_else(missing)
}

/// The thing of that name, made if there is none. A UUID has to be known. What was archived is in use again.
pub(super) fn find_or_make(
    registry: &Registry,
    project: i64,
    kind: Kind,
    id: &str,
    now: OffsetDateTime,
) -> Result<Thing, ApiError> {
    match registry.thing(project, kind, id)? {
        Some(known) => unarchived(registry, known, now),
        None if Uuid::try_parse(id).is_ok() => find(registry, project, kind, id),
        None => {
            check_name(kind, id)?;
            make(registry, project, kind, &NewThing { name: id, slug: None, units: None }, now)
        }
    }
}

/// The thing of a measure as an adapter gives it, made if there is none.
pub(super) fn measure_thing(
    registry: &Registry,
    project: i64,
    measure: &Measure,
    now: OffsetDateTime,
) -> Result<Thing, ApiError> {
    let (slug, name) = (measure.slug.as_str(), &*measure.name);
    let mut found = registry.thing(project, Kind::Measure, slug)?;
    if found.is_none() {
        found = registry.thing(project, Kind::Measure, name)?;
    }
    match found {
        Some(known) => Ok(known),
        None if Uuid::try_parse(name).is_ok() => find(registry, project, Kind::Measure, name),
        None => {
            let (slug, units) = (Some(measure.slug.clone()), Some(&*measure.units));
            make(registry, project, Kind::Measure, &NewThing { name, slug, units }, now)
        }
    }
}

/// Makes a thing. 409 where its name or slug is taken.
pub(super) fn make(
    registry: &Registry,
    project: i64,
    kind: Kind,
    new: &NewThing<'_>,
    now: OffsetDateTime,
) -> Result<Thing, ApiError> {
    let made = registry.create_thing(project, kind, new, now)?;
    made.map_err(|conflict| refusal(kind, new.name, conflict))
}

/// The thing, taken out of the archive.
pub(super) fn unarchived(
    registry: &Registry,
    thing: Thing,
    now: OffsetDateTime,
) -> Result<Thing, ApiError> {
    if thing.archived.is_none() {
        return Ok(thing);
    }
    let change = ThingChange { is_archived: Some(false), ..ThingChange::default() };
    let changed = registry.change_thing(thing.id, &change, now)?;
    Ok(changed.and_then(Result::ok).unwrap_or(thing))
}

/// Why a thing was not made or changed.
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

/// Checks a new name by the rules for names of its kind.
pub(crate) fn check_name(kind: Kind, name: &str) -> Result<(), ApiError> {
    let checked: Result<(), InvalidName> = match kind {
        Kind::Branch => BranchName::new(name).map(drop),
        Kind::Testbed => TestbedName::new(name).map(drop),
        Kind::Benchmark => BenchmarkName::new(name).map(drop),
        // Of the same length as those of testbeds.
        Kind::Measure => TestbedName::new(name)
            .map(drop)
            .map_err(|error| InvalidName { what: "measure", ..error }),
    };
    checked.map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Checks the units of a measure: a short line, as names are.
pub(super) fn check_units(units: Option<&str>) -> Result<(), ApiError> {
    let checked = units.map(|units| {
        TestbedName::new(units).map_err(|error| InvalidName { what: "measure's unit", ..error })
    });
    checked.transpose().map(drop).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Checks the hash of a commit: pages show it, and link to it.
pub(super) fn check_hash(hash: Option<&str>) -> Result<(), ApiError> {
    let is_hash =
        |hash: &str| hash.len() <= 64 && hash.bytes().all(|digit| digit.is_ascii_hexdigit());
    match hash {
        Some(hash) if !is_hash(hash) => Err(ApiError::bad_request(format!(
            "{:?} is no hash of a commit: it has at most 64 hexadecimal digits",
            hash.chars().take(80).collect::<String>()
        ))),
        _ => Ok(()),
    }
}

/// A slug that somebody asked for.
pub(super) fn slug(text: Option<&str>) -> Result<Option<Slug>, ApiError> {
    let checked = text.map(Slug::new).transpose();
    checked.map_err(|error| ApiError::bad_request(error.to_string()))
}
