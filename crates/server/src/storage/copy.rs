//! Copies the server's tables between locations, from and to folders or databases.

use super::{Claim, StorageError, open, open_existing};
use crate::{database::Content, settings::DataLocation};

/// Locks on the folders of a copy. A PostgreSQL database has no such lock.
#[derive(Debug)]
pub struct Claims {
    _claims: [Option<Claim>; 2],
}

/// Copies a server's tables to a location that has none of another server, and verifies the copy by digest. Returns
/// their content; `None` if there is no server's data at `from`. Running it again only compares. While the locks are
/// held, no server can start in either folder: results copied afterwards would be inconsistent.
pub fn copy_server(
    from: &DataLocation,
    to: &DataLocation,
) -> Result<Option<(Content, Claims)>, StorageError> {
    let source = match open_existing(from) {
        Err(StorageError::NoServer(_)) => return Ok(None),
        source => source?,
    };
    // Would miss concurrent writes of a running server.
    let claims = Claims { _claims: [claim(from)?, claim(to)?] };
    let target = open(to)?;
    let content = source.content()?;
    if target.content()? != content {
        source.copy_to(&target)?;
        if target.content()? != content {
            return Err(StorageError::NotEqual { from: from.to_string(), to: to.to_string() });
        }
    }
    Ok(Some((content, claims)))
}

fn claim(place: &DataLocation) -> Result<Option<Claim>, StorageError> {
    match place {
        DataLocation::Folder(folder) => Claim::of(folder).map(Some),
        DataLocation::Postgres { .. } => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use wingbeat_sql::PostgresUrl;
    use wingbeat_track::model::ProjectName;

    use super::*;
    use crate::database::{NewProject, Visibility};

    #[test]
    fn there_and_back_is_equal() {
        let folder = tempfile::tempdir().expect("a folder");
        let first = DataLocation::from(&folder.path().join("first"));
        let mut places = vec![first.clone(), DataLocation::from(&folder.path().join("second"))];
        if let Some(url) = wingbeat_pg_testing::database() {
            let primary = PostgresUrl::parse(&url).expect("a URL");
            places.insert(1, DataLocation::Postgres { primary, replica: None });
        }
        assert!(copy_server(&first, &places[1]).expect("nothing to copy").is_none());
        let name = ProjectName::new("a").expect("a name");
        let new = NewProject { name, slug: None, url: None, visibility: Visibility::Public };
        let now = OffsetDateTime::UNIX_EPOCH;
        open(&first).expect("made").create_project(&new, now).expect("made");
        let mut contents = Vec::new();
        for pair in places.windows(2) {
            let copy = || copy_server(&pair[0], &pair[1]).expect("copied").expect("something").0;
            contents.push(copy());
            assert_eq!(Some(copy()), contents.last().copied());
        }
        assert!(contents.iter().all(|it| *it == contents[0] && it.rows == 1), "{contents:?}");
        let last = open(&places[places.len() - 1]).expect("opened");
        last.create_project(&new, now).expect("made");
        let error = copy_server(&first, &places[places.len() - 1]).expect_err("another one");
        assert!(error.to_string().contains("has users or projects of a server already"), "{error}");
    }
}
