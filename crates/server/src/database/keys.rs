//! Keys of users and of projects. Stores only their SHA-256.

use time::{Duration, OffsetDateTime};
use uuid::Uuid;
use wingbeat_sql::{Error, OptionalExtension as _, Result as SqlResult, Row, Time, params};

use super::{
    Database, Digest, StoreError, User,
    users::{COLUMNS as USER_COLUMNS, user},
};

/// Owner of a key, by row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyOwner {
    User(i64),
    Project(i64),
}

/// A key, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub uuid: Uuid,
    pub name: String,
    pub owner: KeyOwner,
    /// UUID of the user who created a project key, if known and not deleted.
    pub creator: Option<Uuid>,
    pub created: OffsetDateTime,
    pub expires: OffsetDateTime,
    pub revoked: Option<OffsetDateTime>,
}

impl Key {
    /// Expiry; `None` if it has none.
    pub fn end(&self) -> Option<OffsetDateTime> {
        (self.expires - self.created < NO_END / 2).then_some(self.expires)
    }
}

/// Lifetime of keys without expiry, the maximum in `bencher`.
pub const NO_END: Duration = Duration::seconds(u32::MAX as i64);

/// A key to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub owner: KeyOwner,
    pub name: String,
    pub hash: Digest,
    /// Creator of a project key.
    pub creator: Option<i64>,
    pub expires: OffsetDateTime,
}

/// The subject that a key authenticates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyHolder {
    User(Box<User>),
    Project(i64),
}

const COLUMNS: &str = "key.uuid, key.name, key.\"user\", key.project, key.created_ns,
     key.expires_ns, key.revoked_ns, \"user\".uuid AS creator
     FROM key LEFT JOIN \"user\" ON \"user\".id = key.\"user\"";

impl KeyOwner {
    fn condition(self) -> (&'static str, i64) {
        match self {
            Self::User(id) => ("key.\"user\" = ?1 AND key.project IS NULL", id),
            Self::Project(id) => ("key.project = ?1", id),
        }
    }
}

impl Database {
    /// Stores a key.
    pub fn create_key(&self, new: &NewKey, now: OffsetDateTime) -> Result<Key, StoreError> {
        self.doing("making a key", || {
            let uuid = Uuid::now_v7();
            let (user, project) = match new.owner {
                KeyOwner::User(user) => (Some(user), None),
                KeyOwner::Project(project) => (new.creator, Some(project)),
            };
            self.db().execute(
                "INSERT INTO key (uuid, hash, name, \"user\", project, created_ns, expires_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    uuid,
                    new.hash.as_slice(),
                    new.name,
                    user,
                    project,
                    Time(now),
                    Time(new.expires)
                ],
            )?;
            self.find_key(new.owner, uuid)?.ok_or(Error::NoRow)
        })
    }

    /// The subject of a key, unless it is unknown, revoked, expired, or of a locked user.
    pub fn key_holder(
        &self,
        hash: &Digest,
        now: OffsetDateTime,
    ) -> Result<Option<KeyHolder>, StoreError> {
        self.doing("looking for a key", || {
            let sql = "SELECT \"user\", project FROM key
                       WHERE hash = ?1 AND expires_ns > ?2 AND revoked_ns IS NULL";
            let owner = self
                .db()
                .prepare(sql)?
                .query_row(params![hash.as_slice(), Time(now)], |row| {
                    Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
                })
                .optional()?;
            match owner {
                Some((_, Some(project))) => Ok(Some(KeyHolder::Project(project))),
                Some((Some(id), None)) => {
                    let sql = format!("SELECT {USER_COLUMNS} FROM \"user\" WHERE id = ?1");
                    let user = self.db().prepare(&sql)?.query_row([id], user)?;
                    Ok((!user.is_locked).then(|| KeyHolder::User(Box::new(user))))
                }
                _ => Ok(None),
            }
        })
    }

    /// All keys of a user or project, by name.
    pub fn keys(&self, owner: KeyOwner) -> Result<Vec<Key>, StoreError> {
        let (condition, id) = owner.condition();
        let sql = format!("SELECT {COLUMNS} WHERE {condition} ORDER BY key.name, key.id");
        self.rows("listing keys", &sql, [id], key)
    }

    /// A key of a user or project.
    pub fn key(&self, owner: KeyOwner, uuid: Uuid) -> Result<Option<Key>, StoreError> {
        self.find_key(owner, uuid).map_err(self.error("looking for a key"))
    }

    fn find_key(&self, owner: KeyOwner, uuid: Uuid) -> SqlResult<Option<Key>> {
        let (condition, id) = owner.condition();
        let sql = format!("SELECT {COLUMNS} WHERE {condition} AND key.uuid = ?2");
        self.db().prepare(&sql)?.query_row(params![id, uuid], key).optional()
    }

    /// Renames a key. `None` if absent.
    pub fn rename_key(
        &self,
        owner: KeyOwner,
        uuid: Uuid,
        name: &str,
    ) -> Result<Option<Key>, StoreError> {
        self.doing("renaming a key", || {
            let Some(key) = self.find_key(owner, uuid)? else { return Ok(None) };
            self.db().execute("UPDATE key SET name = ?2 WHERE uuid = ?1", params![uuid, name])?;
            Ok(Some(Key { name: name.to_owned(), ..key }))
        })
    }

    /// Revokes a key permanently. `false` if absent. An earlier revocation keeps its time.
    pub fn revoke_key(
        &self,
        owner: KeyOwner,
        uuid: Uuid,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        self.doing("revoking a key", || {
            if self.find_key(owner, uuid)?.is_none() {
                return Ok(false);
            }
            let sql = "UPDATE key SET revoked_ns = coalesce(revoked_ns, ?2) WHERE uuid = ?1";
            self.db().execute(sql, params![uuid, Time(now)])?;
            Ok(true)
        })
    }
}

/// Why a key name is rejected, as text; `None` if accepted.
pub fn key_name_fault(name: &str) -> Option<&'static str> {
    let is_plain = !name.trim().is_empty() && !name.chars().any(char::is_control);
    (!is_plain || name.chars().count() > 64)
        .then_some("a key's name has 1 to 64 characters: name what uses it, as `ci` does")
}

fn key(row: &Row<'_>) -> SqlResult<Key> {
    let owner = match row.get::<_, Option<i64>>("project")? {
        Some(project) => KeyOwner::Project(project),
        None => KeyOwner::User(row.get("user")?),
    };
    Ok(Key {
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        owner,
        creator: row.get("creator")?,
        created: row.time("created_ns")?,
        expires: row.time("expires_ns")?,
        revoked: row.optional_time("revoked_ns")?,
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::database::tests::on_both;
    use crate::database::{NewUser, Role};

    #[test]
    fn a_key_works_until_it_is_revoked_or_expires() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH + Duration::days(1);
            let user =
                NewUser { name: "a".into(), email: "a@example.org".into(), role: Role::Member };
            let user = database.create_user(&user, now).expect("written").expect("made");
            let owner = KeyOwner::User(user.id);
            let make = |byte: u8| {
                let expires = now + Duration::hours(1);
                let new =
                    NewKey { owner, name: "ci".into(), hash: [byte; 32], creator: None, expires };
                database.create_key(&new, now).expect("made")
            };
            let check = |byte: u8, after: Duration, expected: bool| {
                let found = database.key_holder(&[byte; 32], now + after).expect("read");
                assert_eq!(found.is_some(), expected, "{byte} {after}");
            };
            let (first, _second) = (make(1), make(2));
            check(1, Duration::ZERO, true);
            check(1, Duration::hours(1), false);
            check(1, -Duration::days(1), true);
            check(3, Duration::ZERO, false);
            assert!(!database.revoke_key(KeyOwner::Project(1), first.uuid, now).expect("written"));
            check(1, Duration::ZERO, true);
            assert!(database.revoke_key(owner, first.uuid, now).expect("written"));
            check(1, Duration::ZERO, false);
            // Neither a second revocation nor a clock step backwards changes a revoked key.
            assert!(
                database.revoke_key(owner, first.uuid, now + Duration::hours(1)).expect("written")
            );
            let kept = database.key(owner, first.uuid).expect("read").expect("there");
            assert_eq!(kept.revoked, Some(now));
            check(1, -Duration::days(1), false);
            check(2, Duration::ZERO, true);
            database.set_locked(user.id, true, now).expect("written").expect("locked");
            check(2, Duration::ZERO, false);
        });
    }
}
