//! Branches, testbeds, benchmarks and measures: named by text in results; here each has a UUID, and a name and slug
//! that may change.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{
    Connection, Error, OptionalExtension as _, Result as SqlResult, Row, ToSql, params,
};
use wingbeat_track::model::Slug;

use super::{Registry, RegistryError, Time, projects::free};

/// Kind of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Branch,
    Testbed,
    Benchmark,
    Measure,
}

/// A branch, testbed, benchmark or measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
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

/// A thing to create. The caller has validated the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThing<'a> {
    pub name: &'a str,
    pub slug: Option<Slug>,
    pub units: Option<&'a str>,
}

/// Changes of a thing. `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThingChange {
    pub name: Option<String>,
    pub slug: Option<Slug>,
    pub units: Option<String>,
    pub is_archived: Option<bool>,
}

/// Filter and order of things.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ThingFilter<'a> {
    pub name: Option<&'a str>,
    /// Part of the name, slug or UUID, case-insensitive.
    pub search: Option<&'a str>,
    pub is_archived: bool,
    pub descending: bool,
    pub limit: u64,
    pub offset: u64,
}

/// Why creating, changing or deleting a thing failed.
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
    pub const ALL: [Self; 4] = [Self::Branch, Self::Testbed, Self::Benchmark, Self::Measure];

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

impl Registry {
    /// The thing with this UUID, slug or name, in this order.
    pub fn thing(
        &self,
        project: i64,
        kind: Kind,
        id: &str,
    ) -> Result<Option<Thing>, RegistryError> {
        let find = || {
            if let Ok(uuid) = Uuid::try_parse(id)
                && let Some(found) = by(&self.connection, project, kind, "uuid", uuid)?
            {
                return Ok(Some(found));
            }
            match by(&self.connection, project, kind, "slug", id)? {
                Some(found) => Ok(Some(found)),
                None => by(&self.connection, project, kind, "name", id),
            }
        };
        find().map_err(self.error("looking for a name"))
    }

    /// The thing with exactly this name. Names that differ in a tool's output are different things, even if one is the
    /// slug of the other.
    pub fn thing_named(
        &self,
        project: i64,
        kind: Kind,
        name: &str,
    ) -> Result<Option<Thing>, RegistryError> {
        by(&self.connection, project, kind, "name", name).map_err(self.error("looking for a name"))
    }

    /// The thing with this name in the results.
    pub fn thing_stored(
        &self,
        project: i64,
        kind: Kind,
        stored: &str,
    ) -> Result<Option<Thing>, RegistryError> {
        by(&self.connection, project, kind, "stored", stored)
            .map_err(self.error("looking for a name"))
    }

    /// The thing of this row.
    pub fn thing_of_row(&self, id: i64) -> Result<Option<Thing>, RegistryError> {
        let sql = format!("SELECT {COLUMNS} FROM thing WHERE id = ?1");
        let find = || self.connection.prepare(&sql)?.query_row([id], thing).optional();
        find().map_err(self.error("looking for a name"))
    }

    /// Things by name, and their number without the limit.
    pub fn things(
        &self,
        project: i64,
        kind: Kind,
        filter: &ThingFilter<'_>,
    ) -> Result<(Vec<Thing>, u64), RegistryError> {
        let list = || {
            let sought =
                filter.search.map(|text| format!("%{}%", escaped(text).to_ascii_lowercase()));
            let condition = "project = ?1 AND kind = ?2 AND CASE WHEN archived_ns IS NULL THEN 0 ELSE 1 END = ?3
                 AND (name = ?4 OR ?4 IS NULL)
                 AND (lower(name) LIKE ?5 ESCAPE '\\'
                      OR slug LIKE ?5 ESCAPE '\\' OR ?5 IS NULL)";
            let values = params![project, kind.word(), filter.is_archived, filter.name, sought];
            let sql = format!("SELECT count(*) FROM thing WHERE {condition}");
            let count: i64 = self.connection.prepare(&sql)?.query_row(values, |row| row.get(0))?;
            let order = if filter.descending { "DESC" } else { "ASC" };
            let (limit, offset) = (filter.limit, filter.offset);
            let sql = format!(
                "SELECT {COLUMNS} FROM thing WHERE {condition}
                 ORDER BY name {order}, id {order} LIMIT {limit} OFFSET {offset}"
            );
            let mut statement = self.connection.prepare(&sql)?;
            let found = statement.query_map(values, thing)?.collect::<SqlResult<_>>()?;
            Ok((found, count.unsigned_abs()))
        };
        list().map_err(self.error("listing names"))
    }

    /// Creates a thing. A taken name or requested slug is a conflict; a slug derived from the name gets a suffix if
    /// taken.
    pub fn create_thing(
        &self,
        project: i64,
        kind: Kind,
        new: &NewThing<'_>,
        now: OffsetDateTime,
    ) -> Result<Result<Thing, Conflict>, RegistryError> {
        let create = || {
            // Inside the caller's transaction, or in its own.
            let own =
                self.connection.is_autocommit().then(|| self.connection.writing()).transpose()?;
            let made = create(&self.connection, project, kind, new, now)?;
            if let Some(transaction) = own {
                transaction.commit()?;
            }
            Ok(made)
        };
        create().map_err(self.error("making a name"))
    }

    /// Changes a thing. `None` if the row does not exist.
    pub fn change_thing(
        &self,
        id: i64,
        change: &ThingChange,
        now: OffsetDateTime,
    ) -> Result<Option<Result<Thing, Conflict>>, RegistryError> {
        let apply = || {
            let own =
                self.connection.is_autocommit().then(|| self.connection.writing()).transpose()?;
            let changed = change_thing(&self.connection, id, change, now)?;
            if let Some(transaction) = own {
                transaction.commit()?;
            }
            Ok(changed)
        };
        apply().map_err(self.error("changing a name"))
    }

    /// Deletes a thing that no report uses. Removes it from plots.
    pub fn delete_thing(&self, id: i64) -> Result<Result<(), Conflict>, RegistryError> {
        let delete = || {
            let transaction = self.connection.writing()?;
            let used = "SELECT 1 FROM threshold WHERE branch = ?1 OR testbed = ?1 OR measure = ?1";
            if transaction.prepare(used)?.exists([id])? {
                return Ok(Err(Conflict::Thresholds));
            }
            transaction.execute("DELETE FROM thing WHERE id = ?1", [id])?;
            transaction.commit()?;
            Ok(Ok(()))
        };
        delete().map_err(self.error("deleting a name"))
    }
}

fn by(
    db: &Connection,
    project: i64,
    kind: Kind,
    column: &str,
    value: impl ToSql,
) -> SqlResult<Option<Thing>> {
    let sql =
        format!("SELECT {COLUMNS} FROM thing WHERE project = ?1 AND kind = ?2 AND {column} = ?3");
    db.prepare(&sql)?.query_row(params![project, kind.word(), value], thing).optional()
}

fn create(
    db: &Connection,
    project: i64,
    kind: Kind,
    new: &NewThing<'_>,
    now: OffsetDateTime,
) -> SqlResult<Result<Thing, Conflict>> {
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
    // Results identify measures by slug. A renamed thing keeps its name there.
    let wanted = if kind == Kind::Measure { slug.as_str() } else { new.name };
    let stored = free(wanted, "-", |text| is_free("stored", text))?;
    db.prepare(
        "INSERT INTO thing (project, kind, uuid, stored, name, slug, units, created_ns, modified_ns)
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

fn change_thing(
    db: &Connection,
    id: i64,
    change: &ThingChange,
    now: OffsetDateTime,
) -> SqlResult<Option<Result<Thing, Conflict>>> {
    let sql = format!("SELECT {COLUMNS} FROM thing WHERE id = ?1");
    let Some(mut thing) = db.prepare(&sql)?.query_row([id], thing).optional()? else {
        return Ok(None);
    };
    for (column, text, conflict) in [
        ("name", change.name.as_deref(), Conflict::Name),
        ("slug", change.slug.as_ref().map(Slug::as_str), Conflict::Slug),
    ] {
        let taken = format!(
            "SELECT 1 FROM thing t JOIN thing own ON own.id = ?1
             WHERE t.project = own.project AND t.kind = own.kind AND t.{column} = ?2 AND t.id <> ?1"
        );
        if let Some(text) = text
            && db.prepare(&taken)?.exists(params![id, text])?
        {
            return Ok(Some(Err(conflict)));
        }
    }
    thing.name = change.name.clone().unwrap_or(thing.name);
    thing.slug = change.slug.clone().unwrap_or(thing.slug);
    thing.units = change.units.clone().or(thing.units);
    thing.archived = match change.is_archived {
        Some(true) => Some(thing.archived.unwrap_or(now)),
        Some(false) => None,
        None => thing.archived,
    };
    thing.modified = now;
    db.prepare(
        "UPDATE thing SET name = ?2, slug = ?3, units = ?4, archived_ns = ?5, modified_ns = ?6
         WHERE id = ?1",
    )?
    .execute(params![
        id,
        thing.name,
        thing.slug.as_str(),
        thing.units,
        thing.archived.map(Time),
        Time(now)
    ])?;
    Ok(Some(Ok(thing)))
}

/// Escapes a part of a `LIKE` pattern.
pub(super) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn thing(row: &Row<'_>) -> SqlResult<Thing> {
    let slug = Slug::new(row.get::<_, String>("slug")?).map_err(Error::content)?;
    let word: String = row.get("kind")?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    Ok(Thing {
        id: row.get("id")?,
        kind: kind.ok_or(Error::content("a kind that nobody knows"))?,
        uuid: row.get("uuid")?,
        stored: row.get("stored")?,
        name: row.get("name")?,
        slug,
        units: row.get("units")?,
        created: row.get::<_, Time>("created_ns")?.0,
        modified: row.get::<_, Time>("modified_ns")?.0,
        archived: row.get::<_, Option<Time>>("archived_ns")?.map(|time| time.0),
    })
}

#[cfg(test)]
mod tests;
