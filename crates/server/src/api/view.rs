//! Converts database contents to responses.

mod branch;
mod report;
mod series;
mod threshold;

pub(super) use self::series::Wanted;
use self::threshold::Judges;

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_track::model::{BranchName, InvalidName, Slug, TestbedName};

use super::shapes::{
    JsonEntity, JsonMeasure, JsonOrganization, JsonProject, JsonTestbed, JsonVisibility,
};
use crate::{
    ApiError,
    database::{Database, Entity, Kind, Project, Visibility},
};

/// UUID of the single organization of every server. Arbitrary.
const ORGANIZATION: Uuid = Uuid::from_u128(0x8b36_4b1e_07c4_4a0e_b1f5_93d3_5c1d_2f60);

/// One project's part of the database, for one response.
pub(super) struct View<'d> {
    pub(super) database: &'d Database,
    pub(super) project: &'d Project,
    by_name: RefCell<HashMap<(Kind, String), Rc<Entity>>>,
    /// Version numbers of the reports of a branch; `None` if only one was needed so far.
    numbers: RefCell<HashMap<BranchName, Option<HashMap<Uuid, u64>>>>,
}

impl<'d> View<'d> {
    pub(super) fn of(database: &'d Database, project: &'d Project) -> Self {
        Self { database, project, by_name: RefCell::default(), numbers: RefCell::default() }
    }

    /// The entity with this name in the results. One that the server lacks is synthesized: its name came by another
    /// route, such as a copied store.
    pub(super) fn named(&self, kind: Kind, stored: &str) -> Result<Rc<Entity>, ApiError> {
        let key = (kind, stored.to_owned());
        if let Some(known) = self.by_name.borrow().get(&key) {
            return Ok(Rc::clone(known));
        }
        let database = &self.database;
        let found = database.entity_stored(self.project.id, kind, stored)?;
        let entity = Rc::new(found.unwrap_or_else(|| self.made_up(kind, stored)));
        self.by_name.borrow_mut().insert(key, Rc::clone(&entity));
        Ok(entity)
    }

    fn made_up(&self, kind: Kind, stored: &str) -> Entity {
        let text = format!("{}/{stored}", kind.word());
        Entity {
            id: 0,
            kind,
            uuid: Uuid::new_v5(&self.project.uuid, text.as_bytes()),
            stored: stored.to_owned(),
            name: stored.to_owned(),
            slug: Slug::of(stored),
            units: None,
            created: self.project.created,
            modified: self.project.created,
            archived: None,
        }
    }

    pub(super) fn project(&self) -> JsonProject {
        project(self.project)
    }

    pub(super) fn entity(&self, entity: &Entity) -> JsonEntity {
        JsonEntity {
            uuid: entity.uuid,
            project: self.project.uuid,
            name: entity.name.clone(),
            slug: entity.slug.to_string(),
            created: entity.created,
            modified: entity.modified,
            archived: entity.archived,
        }
    }

    pub(super) fn testbed(&self, entity: &Entity) -> JsonTestbed {
        JsonTestbed { entity: self.entity(entity), spec: None }
    }

    pub(super) fn measure(&self, entity: &Entity) -> JsonMeasure {
        let units = || format!("{} (units)", entity.name);
        JsonMeasure {
            entity: JsonEntity { name: for_client(&entity.name), ..self.entity(entity) },
            units: for_client(&entity.units.clone().unwrap_or_else(units)),
        }
    }
}

/// Longest name in bytes that the client accepts. It rejects a whole list for a longer one.
const CLIENT_NAME_MAX: usize = 64;

/// Truncates a name for the client.
fn for_client(name: &str) -> String {
    if name.len() <= CLIENT_NAME_MAX {
        return name.to_owned();
    }
    let is_end = |at: &usize| name.is_char_boundary(*at) && !name[..*at].ends_with(' ');
    let end = (1..=CLIENT_NAME_MAX - '…'.len_utf8()).rev().find(is_end).unwrap_or_default();
    format!("{}…", &name[..end])
}

/// Name of a branch in the results.
pub(super) fn branch_name(entity: &Entity) -> Result<BranchName, ApiError> {
    BranchName::new(&entity.stored).map_err(damaged)
}

/// Name of a testbed in the results.
pub(super) fn testbed_name(entity: &Entity) -> Result<TestbedName, ApiError> {
    TestbedName::new(&entity.stored).map_err(damaged)
}

/// A name of an entity is not valid in results.
#[expect(clippy::needless_pass_by_value, reason = "it stands behind map_err")]
pub(super) fn damaged(error: InvalidName) -> ApiError {
    let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
    ApiError::new(status, format!("the server's database has an impossible name: {error}"))
}

pub(super) fn project(project: &Project) -> JsonProject {
    JsonProject {
        uuid: project.uuid,
        organization: ORGANIZATION,
        name: project.name.clone(),
        slug: project.slug.to_string(),
        url: project.url.clone(),
        visibility: match project.visibility {
            Visibility::Public => JsonVisibility::Public,
            Visibility::Internal => JsonVisibility::Private,
        },
        created: project.created,
        modified: project.modified,
        claimed: Some(project.created),
    }
}

pub(super) fn organization() -> JsonOrganization {
    let created = OffsetDateTime::UNIX_EPOCH;
    JsonOrganization {
        uuid: ORGANIZATION,
        name: "wingbeat".to_owned(),
        slug: "wingbeat".to_owned(),
        created,
        modified: created,
        claimed: Some(created),
    }
}
