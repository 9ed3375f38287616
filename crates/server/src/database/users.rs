//! Users.

use time::OffsetDateTime;
use uuid::Uuid;
use wingbeat_sql::{Error, OptionalExtension as _, Result as SqlResult, Row, Time, ToSql, params};
use wingbeat_track::model::Slug;

use super::{Database, StoreError, projects::free};

/// Role of a user, in ascending order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Reads all projects.
    Reader,
    /// Uploads results, and edits the contents of projects.
    Member,
    /// Manages users, and deletes projects.
    Admin,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Row.
    pub id: i64,
    pub uuid: Uuid,
    pub name: String,
    pub slug: String,
    pub email: String,
    pub role: Role,
    /// Whether a password has been set.
    pub has_password: bool,
    pub is_locked: bool,
    pub created: OffsetDateTime,
}

/// A user to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    pub name: String,
    pub email: String,
    pub role: Role,
}

/// Why creating or changing a user failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UserRefusal {
    #[error("there is a user with that email address already")]
    EmailTaken,
    #[error("there is another user with that slug")]
    SlugTaken,
    #[error("there is no such user")]
    Unknown,
    #[error("this is the only admin who can sign in: give another user the role admin first")]
    LastAdmin,
}

pub(super) const COLUMNS: &str = "\"user\".id, \"user\".uuid, \"user\".name, \"user\".slug, \"user\".email, \"user\".role,
     CASE WHEN \"user\".password IS NULL THEN 0 ELSE 1 END AS has_password, \"user\".is_locked, \"user\".created_ns";

impl Database {
    /// All users, by name.
    pub fn users(&self) -> Result<Vec<User>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM \"user\" ORDER BY name, id");
        self.rows("listing users", &sql, [], user)
    }

    /// Whether any user exists.
    pub fn has_users(&self) -> Result<bool, StoreError> {
        self.any_user().map_err(self.error("looking for users"))
    }

    pub(super) fn any_user(&self) -> SqlResult<bool> {
        self.db().prepare("SELECT 1 FROM \"user\" LIMIT 1")?.exists([])
    }

    /// The user with this UUID, slug or email address.
    pub fn user(&self, id: &str) -> Result<Option<User>, StoreError> {
        self.doing("looking for a user", || {
            if let Ok(uuid) = Uuid::try_parse(id) {
                return self.user_by("uuid = ?1", uuid);
            }
            match id.contains('@') {
                true => self.user_by("email = ?1", normal_email(id)),
                false => self.user_by("slug = ?1", id),
            }
        })
    }

    /// The user of this row.
    pub fn user_of(&self, id: i64) -> Result<Option<User>, StoreError> {
        self.user_by("id = ?1", id).map_err(self.error("looking for a user"))
    }

    fn user_by(&self, condition: &str, value: impl ToSql) -> SqlResult<Option<User>> {
        let sql = format!("SELECT {COLUMNS} FROM \"user\" WHERE {condition}");
        self.db().prepare(&sql)?.query_row([value], user).optional()
    }

    /// Creates a user without a password.
    pub fn create_user(
        &self,
        new: &NewUser,
        now: OffsetDateTime,
    ) -> Result<Result<User, UserRefusal>, StoreError> {
        self.write("making a user", |_| self.insert_user(new, now))
    }

    /// Like [`Database::create_user`], within a transaction.
    pub(super) fn insert_user(
        &self,
        new: &NewUser,
        now: OffsetDateTime,
    ) -> SqlResult<Result<User, UserRefusal>> {
        let exists = |column: &str, value: &str| {
            let sql = format!("SELECT 1 FROM \"user\" WHERE {column} = ?1");
            self.db().prepare(&sql)?.exists([value])
        };
        let email = normal_email(&new.email);
        if exists("email", &email)? {
            return Ok(Err(UserRefusal::EmailTaken));
        }
        let slug =
            free(Slug::of(&new.name).as_str(), "-", |slug| exists("slug", slug).map(|is| !is))?;
        let uuid = Uuid::now_v7();
        self.db().execute(
            "INSERT INTO \"user\" (uuid, name, slug, email, role, created_ns, modified_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
            params![uuid, new.name, slug, email, new.role, Time(now)],
        )?;
        let made = self.user_by("uuid = ?1", uuid)?;
        Ok(Ok(made.ok_or(Error::NoRow)?))
    }

    /// Changes a user's name and slug.
    pub fn set_name(
        &self,
        id: i64,
        name: &str,
        slug: &str,
        now: OffsetDateTime,
    ) -> Result<Result<User, UserRefusal>, StoreError> {
        let of_slug = self.user_by("slug = ?1", slug).map_err(self.error("looking for a user"))?;
        if of_slug.is_some_and(|user| user.id != id) {
            return Ok(Err(UserRefusal::SlugTaken));
        }
        let sql = "UPDATE \"user\" SET name = ?2, slug = ?3, modified_ns = ?4 WHERE id = ?1";
        self.change_user(id, sql, params![id, name, slug, Time(now)])
    }

    /// Changes a user's role. Takes effect immediately for keys and sessions.
    pub fn set_role(
        &self,
        id: i64,
        role: Role,
        now: OffsetDateTime,
    ) -> Result<Result<User, UserRefusal>, StoreError> {
        let sql = "UPDATE \"user\" SET role = ?2, modified_ns = ?3 WHERE id = ?1";
        self.change_user(id, sql, params![id, role, Time(now)])
    }

    /// Locks or unlocks a user. Locking ends all sessions and disables all keys.
    pub fn set_locked(
        &self,
        id: i64,
        is_locked: bool,
        now: OffsetDateTime,
    ) -> Result<Result<User, UserRefusal>, StoreError> {
        let sql = "UPDATE \"user\" SET is_locked = ?2, modified_ns = ?3 WHERE id = ?1";
        let changed = self.change_user(id, sql, params![id, is_locked, Time(now)])?;
        if is_locked && changed.is_ok() {
            self.end_sessions(id)?;
        }
        Ok(changed)
    }

    /// Changes a user, unless no admin would be left.
    fn change_user(
        &self,
        id: i64,
        sql: &str,
        values: &[&dyn ToSql],
    ) -> Result<Result<User, UserRefusal>, StoreError> {
        self.doing("changing a user", || {
            let transaction = self.db().writing()?;
            let before = self.admins()?;
            transaction.prepare(sql)?.execute(values)?;
            let Some(changed) = self.user_by("id = ?1", id)? else {
                return Ok(Err(UserRefusal::Unknown));
            };
            if before > 0 && self.admins()? == 0 {
                return Ok(Err(UserRefusal::LastAdmin));
            }
            transaction.commit()?;
            Ok(Ok(changed))
        })
    }

    fn admins(&self) -> SqlResult<i64> {
        let sql = "SELECT count(*) FROM \"user\" WHERE role = 'admin' AND is_locked = 0";
        self.db().prepare(sql)?.query_row([], |row| row.get(0))
    }

    /// Stores the hash of a user's password, and ends all sessions of the user.
    pub fn set_password(&self, id: i64, hash: &str, now: OffsetDateTime) -> Result<(), StoreError> {
        self.write("keeping a password", |_| self.write_password(id, hash, now))
    }

    /// Like [`Database::set_password`], within a transaction.
    pub(super) fn write_password(&self, id: i64, hash: &str, now: OffsetDateTime) -> SqlResult<()> {
        let sql = "UPDATE \"user\" SET password = ?2, modified_ns = ?3 WHERE id = ?1";
        self.db().execute(sql, params![id, hash, Time(now)])?;
        self.db().execute("DELETE FROM session WHERE \"user\" = ?1", [id])?;
        // Links of earlier resets would change the password again.
        self.db().execute("DELETE FROM invite WHERE \"user\" = ?1", [id])?;
        Ok(())
    }

    /// Hash of a user's password, if set.
    pub fn password_hash(&self, id: i64) -> Result<Option<String>, StoreError> {
        let sql = "SELECT password FROM \"user\" WHERE id = ?1";
        let found = self.row("reading a password's hash", sql, [id], |row| row.get(0));
        found.map(Option::flatten)
    }

    /// Adds an entry to the audit log.
    pub fn note(&self, who: &str, what: &str, now: OffsetDateTime) -> Result<(), StoreError> {
        let sql = "INSERT INTO audit (time_ns, who, what) VALUES (?1, ?2, ?3)";
        self.execute("noting a change", sql, params![Time(now), who, what])
    }
}

/// Maximum length of an email address (RFC 5321, section 4.5.3.1.3).
pub const EMAIL_BYTES_MAX: usize = 254;

/// Why a user's name or address is rejected, as text; `None` if both are valid.
pub fn user_fault(new: &NewUser) -> Option<String> {
    let is_plain = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    let is_email = |text: &str| {
        let is_part = |part: &str| !part.is_empty() && !part.contains(char::is_whitespace);
        let parts = text.split_once('@');
        parts.is_some_and(|(name, host)| is_part(name) && is_part(host))
            && text.len() <= EMAIL_BYTES_MAX
    };
    if !is_plain(&new.name) || new.name.chars().count() > 64 {
        return Some("a user's name has 1 to 64 characters".to_owned());
    }
    (!is_plain(&new.email) || !is_email(&new.email)).then(|| {
        format!("{:?} is not an email address; expected one like `ada@example.org`", new.email)
    })
}

/// Normalizes an address: case-insensitive, like mail servers.
fn normal_email(email: &str) -> String {
    email.trim().to_lowercase()
}

pub(super) fn user(row: &Row<'_>) -> SqlResult<User> {
    Ok(User {
        id: row.get("id")?,
        uuid: row.get("uuid")?,
        name: row.get("name")?,
        slug: row.get("slug")?,
        email: row.get("email")?,
        role: row.get("role")?,
        has_password: row.get("has_password")?,
        is_locked: row.get("is_locked")?,
        created: row.time("created_ns")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::tests::on_both;

    fn new(name: &str, role: Role) -> NewUser {
        NewUser { name: name.to_owned(), email: format!("{name}@Example.org"), role }
    }

    #[test]
    fn users_are_found_by_uuid_slug_and_email() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let made = database.create_user(&new("Ada", Role::Admin), now).expect("written");
            let made = made.expect("made");
            for id in [made.uuid.to_string().as_str(), "ada", "ADA@example.org"] {
                assert_eq!(database.user(id).expect("read").as_ref(), Some(&made), "{id}");
            }
            assert_eq!(database.user("bob").expect("read"), None);
            let again = database.create_user(&new("Ada", Role::Reader), now).expect("written");
            assert_eq!(again, Err(UserRefusal::EmailTaken));
        });
    }

    #[test]
    fn somebody_can_always_manage_users() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let make = |name, role| database.create_user(&new(name, role), now).expect("written");
            let (ada, bob) = (make("ada", Role::Admin), make("bob", Role::Member));
            let (ada, bob) = (ada.expect("made").id, bob.expect("made").id);
            let demote = || database.set_role(ada, Role::Reader, now).expect("written").err();
            let lock = || database.set_locked(ada, true, now).expect("written").err();
            assert_eq!(
                (demote(), lock()),
                (Some(UserRefusal::LastAdmin), Some(UserRefusal::LastAdmin))
            );
            database.set_role(bob, Role::Admin, now).expect("written").expect("promoted");
            assert_eq!((demote(), lock()), (None, None));
            let lock = database.set_locked(bob, true, now).expect("written").err();
            assert_eq!(lock, Some(UserRefusal::LastAdmin));
        });
    }
}
