//! Branches, testbeds, benchmarks and measures: named by text in results; here each has a UUID, and a name and slug
//! that may change.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{
    Connection, Error, OptionalExtension as _, Result as SqlResult, Row, Time, ToSql, params,
};
use wingbeat_track::model::Slug;

use super::{Database, StoreError, projects::free};

/// Kind of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Branch,
    Testbed,
    Benchmark,
    Measure,
}

/// A branch, testbed, benchmark or measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entity {
    /// Row.
    pub id: i64,
    pub kind: Kind,
    pub uuid: Uuid,
    /// Name in the results; for a measure, its slug there.
    pub stored: String,
    pub name: String,
    pub slug: Slug,
    /// Measures only.
    pub units: Option<String>,
    pub created: OffsetDateTime,
    pub modified: OffsetDateTime,
    pub archived: Option<OffsetDateTime>,
}

/// An entity to create. The caller has validated the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEntity<'a> {
    pub name: &'a str,
    pub slug: Option<Slug>,
    pub units: Option<&'a str>,
}

/// Changes of an entity. `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntityChange {
    pub name: Option<String>,
    pub slug: Option<Slug>,
    pub units: Option<String>,
    pub is_archived: Option<bool>,
}

/// Filter and order of entities.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntityFilter<'a> {
    pub name: Option<&'a str>,
    /// Part of the name, slug or UUID, case-insensitive.
    pub search: Option<&'a str>,
    pub is_archived: bool,
    pub descending: bool,
    pub limit: u64,
    pub offset: u64,
}

/// Why creating, changing or deleting an entity failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conflict {
    Name,
    Slug,
    /// Thresholds depend on it.
    Thresholds,
}

const COLUMNS: &str =
    "id, kind, uuid, stored, name, slug, units, created_ns, modified_ns, archived_ns";

impl Kind {
    /// The kind in the database and in messages.
    pub fn word(self) -> &'static str {
        match self {
            Self::Branch => "branch",
            Self::Testbed => "testbed",
            Self::Benchmark => "benchmark",
            Self::Measure => "measure",
        }
    }
}

impl Database {
    /// The entity with this UUID, slug or name, in this order.
    pub fn entity(&self, project: i64, kind: Kind, id: &str) -> Result<Option<Entity>, StoreError> {
        self.doing("looking for a name", || {
            if let Ok(uuid) = Uuid::try_parse(id)
                && let Some(found) = by(self.db(), project, kind, "uuid", uuid)?
            {
                return Ok(Some(found));
            }
            match by(self.db(), project, kind, "slug", id)? {
                Some(found) => Ok(Some(found)),
                None => by(self.db(), project, kind, "name", id),
            }
        })
    }

    /// The entity with exactly this name. Names that differ in a tool's output are different entities, even if one is the
    /// slug of the other.
    pub fn entity_named(
        &self,
        project: i64,
        kind: Kind,
        name: &str,
    ) -> Result<Option<Entity>, StoreError> {
        by(self.db(), project, kind, "name", name).map_err(self.error("looking for a name"))
    }

    /// The entity with this name in the results.
    pub fn entity_stored(
        &self,
        project: i64,
        kind: Kind,
        stored: &str,
    ) -> Result<Option<Entity>, StoreError> {
        by(self.db(), project, kind, "stored", stored).map_err(self.error("looking for a name"))
    }

    /// The entity of this row, if it is of the project.
    pub fn entity_in(&self, project: i64, id: i64) -> Result<Option<Entity>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM entity WHERE id = ?1 AND project = ?2");
        self.row("looking for a name", &sql, [id, project], entity)
    }

    /// The entity of this row.
    pub fn entity_of_row(&self, id: i64) -> Result<Option<Entity>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM entity WHERE id = ?1");
        self.row("looking for a name", &sql, [id], entity)
    }

    /// Things by name, and their number without the limit.
    pub fn entities(
        &self,
        project: i64,
        kind: Kind,
        filter: &EntityFilter<'_>,
    ) -> Result<(Vec<Entity>, u64), StoreError> {
        self.doing("listing names", || {
            let sought =
                filter.search.map(|text| format!("%{}%", escaped(text).to_ascii_lowercase()));
            let condition = "project = ?1 AND kind = ?2 AND CASE WHEN archived_ns IS NULL THEN 0 ELSE 1 END = ?3
                 AND (name = ?4 OR ?4 IS NULL)
                 AND (lower(name) LIKE ?5 ESCAPE '\\'
                      OR slug LIKE ?5 ESCAPE '\\' OR ?5 IS NULL)";
            let values = params![project, kind.word(), filter.is_archived, filter.name, sought];
            let sql = format!("SELECT count(*) FROM entity WHERE {condition}");
            let count: i64 = self.db().prepare(&sql)?.query_row(values, |row| row.get(0))?;
            let order = if filter.descending { "DESC" } else { "ASC" };
            let (limit, offset) = (filter.limit, filter.offset);
            let sql = format!(
                "SELECT {COLUMNS} FROM entity WHERE {condition}
                 ORDER BY name {order}, id {order} LIMIT {limit} OFFSET {offset}"
            );
            let mut statement = self.db().prepare(&sql)?;
            let found = statement.query_map(values, entity)?.collect::<SqlResult<_>>()?;
            Ok((found, count.unsigned_abs()))
        })
    }

    /// Creates an entity. A taken name or requested slug is a conflict; a slug derived from the name gets a suffix if
    /// taken.
    pub fn create_entity(
        &self,
        project: i64,
        kind: Kind,
        new: &NewEntity<'_>,
        now: OffsetDateTime,
    ) -> Result<Result<Entity, Conflict>, StoreError> {
        self.write("making a name", |db| create(db, project, kind, new, now))
    }

    /// Changes an entity. `None` if the row does not exist.
    pub fn change_entity(
        &self,
        id: i64,
        change: &EntityChange,
        now: OffsetDateTime,
    ) -> Result<Option<Result<Entity, Conflict>>, StoreError> {
        self.write("changing a name", |db| change_entity(db, id, change, now))
    }

    /// Deletes an entity that no report uses. Removes it from plots.
    pub fn delete_entity(&self, id: i64) -> Result<Result<(), Conflict>, StoreError> {
        self.write("deleting a name", |db| {
            let used = "SELECT 1 FROM threshold WHERE branch = ?1 OR testbed = ?1 OR measure = ?1";
            if db.prepare(used)?.exists([id])? {
                return Ok(Err(Conflict::Thresholds));
            }
            db.execute("DELETE FROM entity WHERE id = ?1", [id])?;
            Ok(Ok(()))
        })
    }

    /// Kind, name in the results and current name of each renamed entity.
    pub fn renamed(&self, project: i64) -> Result<Vec<(Kind, String, String)>, StoreError> {
        let sql = "SELECT kind, stored, name FROM entity WHERE project = ?1 AND name <> stored";
        self.rows("listing names", sql, [project], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })
    }
}

fn by(
    db: &Connection,
    project: i64,
    kind: Kind,
    column: &str,
    value: impl ToSql,
) -> SqlResult<Option<Entity>> {
    let sql =
        format!("SELECT {COLUMNS} FROM entity WHERE project = ?1 AND kind = ?2 AND {column} = ?3");
    db.prepare(&sql)?.query_row(params![project, kind.word(), value], entity).optional()
}

fn create(
    db: &Connection,
    project: i64,
    kind: Kind,
    new: &NewEntity<'_>,
    now: OffsetDateTime,
) -> SqlResult<Result<Entity, Conflict>> {
    let is_free = |column: &str, text: &str| Ok(by(db, project, kind, column, text)?.is_none());
    if !is_free("name", new.name)? {
        return Ok(Err(Conflict::Name));
    }
    let uuid = Uuid::now_v7();
    let slug = match &new.slug {
        Some(slug) if !is_free("slug", slug.as_str())? => return Ok(Err(Conflict::Slug)),
        Some(slug) => slug.as_str().to_owned(),
        None => {
            let wanted = match kind {
                Kind::Measure => Slug::of_name(new.name),
                _ => Slug::of(new.name),
            };
            match is_free("slug", wanted.as_str())? {
                true => wanted.to_string(),
                false => with_tail(&wanted, uuid),
            }
        }
    };
    // Results identify measures by slug. A renamed entity keeps its name there.
    let wanted = if kind == Kind::Measure { slug.as_str() } else { new.name };
    let stored = free(wanted, "-", |text| is_free("stored", text))?;
    db.prepare(
        "INSERT INTO entity (project, kind, uuid, stored, name, slug, units, created_ns, modified_ns)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
    )?
    .execute(params![project, kind.word(), uuid, stored, new.name, slug, new.units, Time(now)])?;
    by(db, project, kind, "uuid", uuid)?.ok_or(Error::NoRow).map(Ok)
}

/// The slug with part of a UUID appended. Numbers would be tried one by one, and thousands of benchmarks may share a
/// prefix.
fn with_tail(slug: &Slug, uuid: Uuid) -> String {
    let digits = uuid.simple().to_string();
    let head: String = slug.as_str().chars().take(64 - 9).collect();
    format!("{}-{}", head.trim_end_matches('-'), &digits[digits.len() - 8..])
}

fn change_entity(
    db: &Connection,
    id: i64,
    change: &EntityChange,
    now: OffsetDateTime,
) -> SqlResult<Option<Result<Entity, Conflict>>> {
    let sql = format!("SELECT {COLUMNS} FROM entity WHERE id = ?1");
    let Some(mut entity) = db.prepare(&sql)?.query_row([id], entity).optional()? else {
        return Ok(None);
    };
    for (column, text, conflict) in [
        ("name", change.name.as_deref(), Conflict::Name),
        ("slug", change.slug.as_ref().map(Slug::as_str), Conflict::Slug),
    ] {
        let taken = format!(
            "SELECT 1 FROM entity t JOIN entity own ON own.id = ?1
             WHERE t.project = own.project AND t.kind = own.kind AND t.{column} = ?2 AND t.id <> ?1"
        );
        if let Some(text) = text
            && db.prepare(&taken)?.exists(params![id, text])?
        {
            return Ok(Some(Err(conflict)));
        }
    }
    entity.name = change.name.clone().unwrap_or(entity.name);
    entity.slug = change.slug.clone().unwrap_or(entity.slug);
    entity.units = change.units.clone().or(entity.units);
    entity.archived = match change.is_archived {
        Some(true) => Some(entity.archived.unwrap_or(now)),
        Some(false) => None,
        None => entity.archived,
    };
    entity.modified = now;
    db.prepare(
        "UPDATE entity SET name = ?2, slug = ?3, units = ?4, archived_ns = ?5, modified_ns = ?6
         WHERE id = ?1",
    )?
    .execute(params![
        id,
        entity.name,
        entity.slug.as_str(),
        entity.units,
        entity.archived.map(Time),
        Time(now)
    ])?;
    Ok(Some(Ok(entity)))
}

/// Escapes a part of a `LIKE` pattern.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn entity(row: &Row<'_>) -> SqlResult<Entity> {
    Ok(Entity {
        id: row.get("id")?,
        kind: row.get("kind")?,
        uuid: row.get("uuid")?,
        stored: row.get("stored")?,
        name: row.get("name")?,
        slug: row.get("slug")?,
        units: row.get("units")?,
        created: row.time("created_ns")?,
        modified: row.time("modified_ns")?,
        archived: row.optional_time("archived_ns")?,
    })
}

/// Start point of a branch's next report.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Start {
    /// The origin branch, by its name in the results.
    pub branch: Option<String>,
    pub hash: Option<String>,
    pub max_versions: Option<u32>,
    pub is_reset: bool,
}

impl Database {
    /// Sets the start point of the next report of a branch, given by row.
    pub fn set_start(&self, branch: i64, start: &Start) -> Result<(), StoreError> {
        let sql = "INSERT INTO branch_start (branch, start, hash, max_versions, is_reset)
                   VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (branch) DO UPDATE SET start = excluded.start, hash = excluded.hash,
                       max_versions = excluded.max_versions, is_reset = excluded.is_reset";
        let values = params![branch, start.branch, start.hash, start.max_versions, start.is_reset];
        self.execute("keeping the start point of a branch", sql, values)
    }

    /// The start point set for a branch's next report.
    pub fn start(&self, branch: i64) -> Result<Option<Start>, StoreError> {
        let sql = "SELECT start, hash, max_versions, is_reset FROM branch_start WHERE branch = ?1";
        self.row("reading the start point of a branch", sql, [branch], |row| {
            Ok(Start {
                branch: row.get(0)?,
                hash: row.get(1)?,
                max_versions: row.get(2)?,
                is_reset: row.get(3)?,
            })
        })
    }

    /// Removes it after the report has arrived.
    pub fn clear_start(&self, branch: i64) -> Result<(), StoreError> {
        let sql = "DELETE FROM branch_start WHERE branch = ?1";
        self.execute("forgetting the start point of a branch", sql, [branch])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::{now, on_both_with_project};

    fn new(name: &str) -> NewEntity<'_> {
        NewEntity { name, slug: None, units: None }
    }

    #[test]
    fn entities_are_found_by_uuid_slug_and_name() {
        on_both_with_project(|database, project| {
            let made = database.create_entity(project, Kind::Branch, &new("feature/x"), now());
            let made = made.expect("written").expect("made");
            for id in [made.uuid.to_string().as_str(), "feature-x", "feature/x"] {
                let found = database.entity(project, Kind::Branch, id).expect("read");
                assert_eq!(found.as_ref(), Some(&made), "{id}");
            }
            assert_eq!(database.entity(project, Kind::Testbed, "feature-x").expect("read"), None);
            assert_eq!(
                database.entity(project + 1, Kind::Branch, "feature-x").expect("read"),
                None
            );
        });
    }

    #[test]
    fn a_renamed_entity_keeps_its_name_in_the_results() {
        on_both_with_project(|database, project| {
            let create = |name| database.create_entity(project, Kind::Benchmark, &new(name), now());
            let first = create("parse").expect("written").expect("made");
            let rename = EntityChange {
                name: Some("read".to_owned()),
                slug: Some(Slug::of("read")),
                ..EntityChange::default()
            };
            database.change_entity(first.id, &rename, now()).expect("written");
            let second = create("parse").expect("written").expect("made");
            assert_eq!((second.stored.as_str(), second.slug.as_str()), ("parse-2", "parse"));
            assert_eq!(create("read").expect("written"), Err(Conflict::Name));
            let back = EntityChange { name: Some("parse".to_owned()), ..EntityChange::default() };
            let changed = database.change_entity(first.id, &back, now()).expect("written");
            assert_eq!(changed, Some(Err(Conflict::Name)));
        });
    }

    #[test]
    fn lists_have_pages_and_archived_entities_stand_apart() {
        on_both_with_project(|database, project| {
            for name in ["c", "a_1", "b", "a%"] {
                let made = database.create_entity(project, Kind::Measure, &new(name), now());
                made.expect("written").expect("made");
            }
            let b = database.entity(project, Kind::Measure, "b").expect("read").expect("b");
            let archive = EntityChange { is_archived: Some(true), ..EntityChange::default() };
            database.change_entity(b.id, &archive, now()).expect("written");
            let check = |filter: &EntityFilter<'_>, expected: &[&str], total| {
                let (entities, count) =
                    database.entities(project, Kind::Measure, filter).expect("read");
                let names: Vec<_> = entities.iter().map(|entity| entity.name.as_str()).collect();
                assert_eq!((names.as_slice(), count), (expected, total), "{filter:?}");
            };
            let all = EntityFilter { limit: 10, ..EntityFilter::default() };
            check(&all, &["a%", "a_1", "c"], 3);
            check(&EntityFilter { descending: true, ..all.clone() }, &["c", "a_1", "a%"], 3);
            check(&EntityFilter { limit: 1, offset: 1, ..all.clone() }, &["a_1"], 3);
            check(&EntityFilter { is_archived: true, ..all.clone() }, &["b"], 1);
            check(&EntityFilter { search: Some("A_"), ..all.clone() }, &["a_1"], 1);
            check(&EntityFilter { search: Some("%"), ..all.clone() }, &["a%"], 1);
            check(&EntityFilter { name: Some("c"), ..all }, &["c"], 1);
        });
    }

    #[test]
    fn names_that_begin_alike_get_slugs_of_their_own() {
        on_both_with_project(|database, project| {
            let mut slugs = std::collections::BTreeSet::new();
            for number in 0..200 {
                let name = format!("{}{number}", "a_".repeat(100));
                let made = database.create_entity(project, Kind::Benchmark, &new(&name), now());
                let made = made.expect("written").expect("made");
                assert_eq!(made.stored, name);
                assert!(slugs.insert(made.slug.to_string()) && made.slug.as_str().len() <= 64);
            }
        });
    }
}
