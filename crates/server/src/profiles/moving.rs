//! The place of the profiles of a database, and moving them elsewhere.
//!
//! A place has a mark, a file with a UUID, and so has the database. Profiles are written only if both are the same: not
//! to a folder that is not mounted, and not to the former place after a move.

use std::collections::HashSet;

use sha2::{Digest as _, Sha256};
use uuid::Uuid;
use wingbeat_sql::{Connection, OptionalExtension as _, Result as SqlResult, params};

use super::{
    ProfilesError,
    files::{Files, FilesError, ProfilesPlace},
};
use crate::database::Database;

/// Names of the settings with the mark and the place.
const MARK: &str = "profiles_mark";
const PLACE: &str = "profiles_place";

/// Files that are copied at once.
const AT_ONCE: usize = 64;

/// What was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    pub files: usize,
    /// Of these, files that were there already, from an interrupted move.
    pub known: usize,
    pub bytes: u64,
    /// Files that the former place does not have either.
    pub missing: usize,
}

/// Mark and place that the database knows.
pub(super) fn known(db: &Connection) -> SqlResult<Option<(Uuid, String)>> {
    let sql = "SELECT value FROM setting WHERE name = ?1";
    let find = |name: &str| db.query_row(sql, [name], |row| row.get::<_, String>(0)).optional();
    let mark = find(MARK)?.and_then(|text| Uuid::try_parse(&text).ok());
    Ok(mark.zip(find(PLACE)?))
}

/// Makes a place that of the database, unless its profiles are elsewhere.
pub(super) fn settle(db: &Connection, mark: Uuid, place: String) -> Result<(), ProfilesError> {
    if let Some((known, former)) = known(db)?
        && known != mark
        && db.prepare("SELECT 1 FROM profile_block LIMIT 1")?.exists([])?
    {
        return Err(ProfilesError::OtherPlace { own: place, known: former });
    }
    Ok(set(db, mark, &place)?)
}

fn set(db: &Connection, mark: Uuid, place: &str) -> SqlResult<()> {
    let sql = "INSERT INTO setting (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    db.execute(sql, params![MARK, mark.to_string()])?;
    db.execute(sql, params![PLACE, place]).map(drop)
}

/// The place of a database's profiles. `None` if it never had any.
pub fn place_of(database: &Database) -> Result<Option<String>, ProfilesError> {
    Ok(known(database.results.connection())?.map(|(_, place)| place))
}

/// Copies all files that the index names to another place, verifies each by digest, and then makes that the place of the
/// database. An interrupted move is continued by the next one. Servers may run: they write to the former place until the
/// move ends, and refuse pushes from then on until they are restarted with the new place.
pub fn move_profiles(
    database: &Database,
    from: &ProfilesPlace,
    to: &ProfilesPlace,
    mut progress: impl FnMut(&Moved),
) -> Result<Moved, ProfilesError> {
    let (source, target) = (Files::at(from.clone()), Files::at(to.clone()));
    let db = database.results.connection();
    let (own, mark) = (source.mark()?, target.mark()?);
    if let Some((known, place)) = known(db)?.filter(|(known, _)| *known != own) {
        // An earlier move ended.
        if known == mark {
            return Ok(Moved::default());
        }
        return Err(ProfilesError::OtherPlace { own: from.to_string(), known: place });
    }
    let mut moved = Moved::default();
    let mut done = HashSet::new();
    loop {
        let paths = left(db, &done)?;
        for some in paths.chunks(AT_ONCE) {
            copy(&source, &target, some, &mut moved)?;
            progress(&moved);
        }
        done.extend(paths);
        // What arrived meanwhile is copied too. The last look and the change are one transaction.
        let is_moved = database.together(|_| {
            let is_all = left(db, &done)?.is_empty();
            if is_all {
                set(db, mark, &to.to_string())?;
            }
            Ok::<_, ProfilesError>(is_all)
        })?;
        if is_moved {
            return Ok(moved);
        }
    }
}

/// Files that are still to copy.
fn left(db: &Connection, done: &HashSet<String>) -> SqlResult<Vec<String>> {
    let mut left = Vec::new();
    db.scan("SELECT path FROM profile_block", |row| {
        let path: String = row.get(0)?;
        if !done.contains(&path) {
            left.push(path);
        }
        Ok(())
    })?;
    Ok(left)
}

/// Copies files, and compares the digests of both.
fn copy(
    source: &Files,
    target: &Files,
    paths: &[String],
    moved: &mut Moved,
) -> Result<(), ProfilesError> {
    let mut new = Vec::new();
    let both = source.all(paths)?.into_iter().zip(digests(target, paths)?);
    for (path, (content, there)) in paths.iter().zip(both) {
        moved.files += 1;
        match content {
            None => moved.missing += 1,
            Some(content) if there == Some(digest(&content)) => moved.known += 1,
            Some(content) => {
                moved.bytes += content.len() as u64;
                new.push((path.clone(), content));
            }
        }
    }
    let paths: Vec<String> = new.iter().map(|(path, _)| path.clone()).collect();
    let expected: Vec<_> = new.iter().map(|(_, content)| Some(digest(content))).collect();
    target.write(new)?;
    match digests(target, &paths)? == expected {
        true => Ok(()),
        false => Err(ProfilesError::Damaged(format!(
            "{} has other files than those just written to it",
            target.place()
        ))),
    }
}

/// Digest of each file that is there.
fn digests(files: &Files, paths: &[String]) -> Result<Vec<Option<[u8; 32]>>, FilesError> {
    let all = files.all(paths)?.into_iter();
    Ok(all.map(|content| content.as_deref().map(digest)).collect())
}

fn digest(content: &[u8]) -> [u8; 32] {
    Sha256::digest(content).into()
}
