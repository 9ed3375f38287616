//! Copies the registry between locations, from and to folders or databases.

use std::path::Path;

use super::{Claim, REGISTRY, StorageError, open_existing_registry, open_registry};
use crate::{
    registry::{Content, Registry, RegistryError},
    settings::DataLocation,
};

/// Locks on the folders of a copy. A PostgreSQL database has no such lock.
#[derive(Debug)]
pub struct Claims {
    _claims: [Option<Claim>; 2],
}

/// Copies the registry to a location that has none, and verifies the copy by digest. Returns its content; `None` if
/// there is no server's data at `from`. Running it again only compares. While the locks are held, no server can start
/// in either folder: results copied afterwards would be inconsistent with the registry.
pub fn copy_registry(
    from: &DataLocation,
    to: &DataLocation,
) -> Result<Option<(Content, Claims)>, StorageError> {
    let source = match open_of(from)? {
        Some(source) => source,
        None => return Ok(None),
    };
    // Would miss concurrent writes of a running server.
    let claims = Claims { _claims: [claim(from)?, claim(to)?] };
    let target = open_registry(to)?;
    let content = source.content()?;
    if target.content()? != content {
        source.copy_to(&target)?;
        if target.content()? != content {
            return Err(StorageError::NotEqual { from: from.to_string(), to: to.to_string() });
        }
    }
    Ok(Some((content, claims)))
}

fn open_of(place: &DataLocation) -> Result<Option<Registry>, StorageError> {
    match open_existing_registry(place) {
        Ok(registry) => Ok(Some(registry)),
        Err(StorageError::NoServer(_) | StorageError::Registry(RegistryError::Empty { .. })) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn claim(place: &DataLocation) -> Result<Option<Claim>, StorageError> {
    match place {
        DataLocation::Folder(folder) => Claim::of(folder).map(Some),
        DataLocation::Postgres { .. } => Ok(None),
    }
}

/// Whether a folder belongs to a server.
pub fn is_of_server(folder: &Path) -> bool {
    folder.join(REGISTRY).is_file()
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use wingbeat_sql::PostgresUrl;
    use wingbeat_track::model::ProjectName;

    use super::*;
    use crate::registry::{NewProject, Visibility};

    #[test]
    fn there_and_back_is_equal() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DataLocation::from(&folder.path().join("first"));
        let mut places = vec![first.clone(), DataLocation::from(&folder.path().join("second"))];
        if let Some(url) = wingbeat_pg_testing::database() {
            let primary = PostgresUrl::parse(&url).expect("a URL");
            places.insert(1, DataLocation::Postgres { primary, replica: None });
        }
        assert!(copy_registry(&first, &places[1]).expect("nothing to copy").is_none());
        let name = ProjectName::new("a").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let now = OffsetDateTime::UNIX_EPOCH;
        open_registry(&first).expect("made").create_project(&new, now).expect("made");
        let mut contents = Vec::new();
        for pair in places.windows(2) {
            let copy = || copy_registry(&pair[0], &pair[1]).expect("copied").expect("something").0;
            contents.push(copy());
            assert_eq!(Some(copy()), contents.last().copied());
        }
        assert!(contents.iter().all(|it| *it == contents[0] && it.rows == 1), "{contents:?}");
        let last = open_registry(&places[places.len() - 1]).expect("opened");
        last.create_project(&new, now).expect("made");
        let error = copy_registry(&first, &places[places.len() - 1]).expect_err("another one");
        assert!(error.to_string().contains("has users or projects already"), "{error}");
    }
}
