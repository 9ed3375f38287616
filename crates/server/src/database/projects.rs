//! Projects.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Error, OptionalExtension as _, Result as SqlResult, Row, Time, ToSql, params};
use wingbeat_track::model::{ProjectName, Slug};

use super::{Database, StoreError};

/// Who may read a project. New ones are internal by default: publishing later is easy, and cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Anyone who can reach the server.
    Public,
    /// Users and keys of this server. The `bencher` client calls it private.
    #[default]
    Internal,
}

/// A project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Row.
    pub id: i64,
    pub uuid: Uuid,
    /// Name in the results.
    pub stored: ProjectName,
    pub name: String,
    pub slug: Slug,
    pub url: Option<String>,
    pub visibility: Visibility,
    /// Whether `auto` judges measures without a threshold.
    pub judges_by_default: bool,
    pub created: OffsetDateTime,
    pub modified: OffsetDateTime,
}

/// A project to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewProject {
    pub name: ProjectName,
    pub slug: Option<Slug>,
    pub url: Option<String>,
    pub visibility: Visibility,
}

/// Changes of a project. `None` leaves a field unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProjectChange {
    pub name: Option<String>,
    pub slug: Option<Slug>,
    /// `Some(None)` removes it.
    pub url: Option<Option<String>>,
    pub visibility: Option<Visibility>,
    pub judges_by_default: Option<bool>,
}

const COLUMNS: &str =
    "id, uuid, stored, name, slug, url, visibility, judges_by_default, created_ns, modified_ns";

impl Database {
    /// All projects, by name.
    pub fn projects(&self) -> Result<Vec<Project>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM server_project ORDER BY name, id");
        self.rows("listing projects", &sql, [], project)
    }

    /// The project with this UUID, slug or name, in this order.
    pub fn project(&self, id: &str) -> Result<Option<Project>, StoreError> {
        self.doing("looking for a project", || {
            if let Ok(uuid) = Uuid::try_parse(id)
                && let Some(found) = self.project_by("uuid = ?1", uuid)?
            {
                return Ok(Some(found));
            }
            match self.project_by("slug = ?1", id)? {
                Some(found) => Ok(Some(found)),
                None => self.project_by("name = ?1 ORDER BY id LIMIT 1", id),
            }
        })
    }

    /// The project with this name in the results.
    pub fn project_stored(&self, stored: &ProjectName) -> Result<Option<Project>, StoreError> {
        self.project_by("stored = ?1", stored.as_str()).map_err(self.error("looking for a project"))
    }

    fn project_by(&self, condition: &str, value: impl ToSql) -> SqlResult<Option<Project>> {
        let sql = format!("SELECT {COLUMNS} FROM server_project WHERE {condition}");
        self.db().prepare(&sql)?.query_row([value], project).optional()
    }

    /// Creates a project. Appends a number to a taken slug.
    pub fn create_project(
        &self,
        new: &NewProject,
        now: OffsetDateTime,
    ) -> Result<Project, StoreError> {
        self.write("making a project", |db| {
            let wanted = new.slug.clone().unwrap_or_else(|| Slug::of(new.name.as_str()));
            let is_free = |column: &str, text: &str| {
                let sql = format!("SELECT 1 FROM server_project WHERE {column} = ?1");
                Ok(!db.prepare(&sql)?.exists([text])?)
            };
            let slug = free(wanted.as_str(), "-", |text| is_free("slug", text))?;
            // A renamed project keeps its name in the results.
            let stored = free(new.name.as_str(), " ", |text| is_free("stored", text))?;
            let uuid = Uuid::now_v7();
            db.execute(
                "INSERT INTO server_project (uuid, stored, name, slug, url, visibility, created_ns, modified_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
                params![
                    uuid,
                    stored,
                    new.name.as_str(),
                    slug,
                    new.url,
                    new.visibility,
                    Time(now)
                ],
            )?;
            self.project_by("uuid = ?1", uuid)?.ok_or(Error::NoRow)
        })
    }

    /// Changes a project. `None` if the row does not exist, or the new slug is taken.
    pub fn change_project(
        &self,
        id: i64,
        change: &ProjectChange,
        now: OffsetDateTime,
    ) -> Result<Option<Project>, StoreError> {
        self.write("changing a project", |db| {
            let Some(mut project) = self.project_by("id = ?1", id)? else { return Ok(None) };
            if let Some(slug) = &change.slug {
                let taken = "SELECT 1 FROM server_project WHERE slug = ?1 AND id <> ?2";
                if db.prepare(taken)?.exists(params![slug.as_str(), id])? {
                    return Ok(None);
                }
                project.slug = slug.clone();
            }
            if let Some(name) = &change.name {
                project.name.clone_from(name);
            }
            if let Some(url) = &change.url {
                project.url.clone_from(url);
            }
            project.visibility = change.visibility.unwrap_or(project.visibility);
            project.judges_by_default =
                change.judges_by_default.unwrap_or(project.judges_by_default);
            project.modified = now;
            db.execute(
                "UPDATE server_project SET name = ?2, slug = ?3, url = ?4, visibility = ?5,
                     judges_by_default = ?6, modified_ns = ?7 WHERE id = ?1",
                params![
                    id,
                    project.name,
                    project.slug.as_str(),
                    project.url,
                    project.visibility,
                    project.judges_by_default,
                    Time(now)
                ],
            )?;
            Ok(Some(project))
        })
    }

    /// Deletes a project with its names, keys and thresholds. Its reports stay in the store, withdrawn.
    pub fn delete_project(&self, id: i64, reason: &str) -> Result<(), StoreError> {
        self.together(|database| {
            for report in database.reports_of(id)? {
                database.results.withdraw(report, Some(reason.to_owned()))?;
            }
            database.write("deleting a project", |db| {
                db.execute("DELETE FROM threshold WHERE project = ?1", [id])?;
                db.execute("DELETE FROM server_project WHERE id = ?1", [id]).map(drop)
            })
        })
    }
}

/// The text, with the first number that makes it unique if taken.
pub(super) fn free(
    text: &str,
    joint: &str,
    is_free: impl Fn(&str) -> SqlResult<bool>,
) -> SqlResult<String> {
    if is_free(text)? {
        return Ok(text.to_owned());
    }
    let mut number = 2_u32;
    loop {
        let tail = format!("{joint}{number}");
        // Slugs and names of projects have at most 64 bytes.
        let mut end = text.len().min(64 - tail.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let candidate = format!("{}{tail}", &text[..end]);
        if is_free(&candidate)? {
            return Ok(candidate);
        }
        number += 1;
    }
}

fn project(row: &Row<'_>) -> SqlResult<Project> {
    Ok(Project {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        stored: row.get("stored")?,
        name: row.get("name")?,
        slug: row.get("slug")?,
        url: row.get("url")?,
        visibility: row.get("visibility")?,
        judges_by_default: row.get("judges_by_default")?,
        created: row.time("created_ns")?,
        modified: row.time("modified_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::on_both;

    fn new(name: &str) -> NewProject {
        let name = ProjectName::new(name).expect("a name");
        NewProject { name, slug: None, url: None, visibility: Visibility::Public }
    }

    #[test]
    fn projects_are_found_by_uuid_slug_and_name() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let made = database.create_project(&new("My Parser"), now).expect("made");
            for id in [made.uuid.to_string().as_str(), "my-parser", "My Parser"] {
                assert_eq!(database.project(id).expect("read").as_ref(), Some(&made), "{id}");
            }
            assert_eq!(database.project("other").expect("read"), None);
        });
    }

    #[test]
    fn names_that_are_taken_get_numbers() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            for (slug, stored) in [("a", "a"), ("a-2", "a 2"), ("a-3", "a 3")] {
                let made = database.create_project(&new("a"), now).expect("made");
                assert_eq!((made.slug.as_str(), made.stored.as_str()), (slug, stored));
            }
        });
    }

    #[test]
    fn a_rename_keeps_what_identifies() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let made = database.create_project(&new("a"), now).expect("made");
            database.create_project(&new("b"), now).expect("made");
            let slug = |text| Some(Slug::new(text).expect("a slug"));
            let rename =
                ProjectChange { name: Some("c".to_owned()), slug: slug("c"), ..Default::default() };
            let renamed = database.change_project(made.id, &rename, now).expect("written");
            let renamed = renamed.expect("renamed");
            assert_eq!((renamed.uuid, &renamed.stored), (made.uuid, &made.stored));
            assert_eq!(renamed.slug.as_str(), "c");
            let taken = ProjectChange { slug: slug("b"), ..Default::default() };
            assert_eq!(database.change_project(made.id, &taken, now).expect("written"), None);
        });
    }
}
