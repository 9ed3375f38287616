//! Secrets of users that expire: sessions of signed-in browsers, and single-use links to set a password. Stores only
//! their SHA-256.

use time::OffsetDateTime;
use wingbeat_sql::{OptionalExtension as _, Result as SqlResult, Time, params};

use super::{
    Database, Digest, NewUser, StoreError, User, UserRefusal,
    users::{COLUMNS, user},
};

/// A session of a signed-in browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub user: User,
    pub created: OffsetDateTime,
    pub expires: OffsetDateTime,
}

/// The recipient of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invite {
    /// The holder becomes the first admin.
    FirstAdmin,
    User(Box<User>),
}

impl Database {
    /// Stores a session, and deletes expired ones.
    pub fn create_session(
        &self,
        hash: &Digest,
        user: i64,
        now: OffsetDateTime,
        expires: OffsetDateTime,
    ) -> Result<(), StoreError> {
        self.write("keeping a session", |db| {
            db.execute("DELETE FROM session WHERE expires_ns <= ?1", [Time(now)])?;
            let sql = "INSERT INTO session (hash, \"user\", created_ns, expires_ns) VALUES (?1, ?2, ?3, ?4)";
            db.execute(sql, params![hash.as_slice(), user, Time(now), Time(expires)]).map(drop)
        })
    }

    /// The session of a cookie, unless it has expired or its user is locked.
    pub fn session(
        &self,
        hash: &Digest,
        now: OffsetDateTime,
    ) -> Result<Option<Session>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, session.created_ns AS begun_ns, session.expires_ns
             FROM session JOIN \"user\" ON \"user\".id = session.\"user\"
             WHERE session.hash = ?1 AND session.expires_ns > ?2 AND \"user\".is_locked = 0"
        );
        let values = params![hash.as_slice(), Time(now)];
        self.row("looking for a session", &sql, values, |row| {
            Ok(Session {
                user: user(row)?,
                created: row.time("begun_ns")?,
                expires: row.time("expires_ns")?,
            })
        })
    }

    /// Extends a session; never shortens it.
    pub fn extend_session(&self, hash: &Digest, expires: OffsetDateTime) -> Result<(), StoreError> {
        let sql = "UPDATE session SET expires_ns = ?2 WHERE hash = ?1 AND expires_ns < ?2";
        self.execute("extending a session", sql, params![hash.as_slice(), Time(expires)])
    }

    /// Ends a session.
    pub fn end_session(&self, hash: &Digest) -> Result<(), StoreError> {
        let sql = "DELETE FROM session WHERE hash = ?1";
        self.execute("ending a session", sql, [hash.as_slice()])
    }

    /// Ends all sessions of a user.
    pub fn end_sessions(&self, user: i64) -> Result<(), StoreError> {
        self.execute("ending sessions", "DELETE FROM session WHERE \"user\" = ?1", [user])
    }

    /// Stores a link for a user, or for the first admin. Invalidates earlier links for the same.
    pub fn create_invite(
        &self,
        user: Option<i64>,
        hash: &Digest,
        now: OffsetDateTime,
        expires: OffsetDateTime,
    ) -> Result<(), StoreError> {
        self.write("keeping an invitation", |db| {
            db.execute("DELETE FROM invite WHERE \"user\" IS NOT DISTINCT FROM ?1", [user])?;
            let sql = "INSERT INTO invite (hash, \"user\", created_ns, expires_ns) VALUES (?1, ?2, ?3, ?4)";
            db.execute(sql, params![hash.as_slice(), user, Time(now), Time(expires)]).map(drop)
        })
    }

    /// Resolves a link, if valid.
    pub fn invite(&self, hash: &Digest, now: OffsetDateTime) -> Result<Option<Invite>, StoreError> {
        self.find_invite(hash, now).map_err(self.error("looking for an invitation"))
    }

    fn find_invite(&self, hash: &Digest, now: OffsetDateTime) -> SqlResult<Option<Invite>> {
        let sql = "SELECT \"user\" FROM invite WHERE hash = ?1 AND expires_ns > ?2";
        let found = self
            .db()
            .prepare(sql)?
            .query_row(params![hash.as_slice(), Time(now)], |row| row.get::<_, Option<i64>>(0))
            .optional()?;
        match found {
            None => Ok(None),
            Some(None) => {
                let has_users = self.any_user()?;
                // An old link must not create a second admin.
                Ok((!has_users).then_some(Invite::FirstAdmin))
            }
            Some(Some(id)) => {
                let sql = format!("SELECT {COLUMNS} FROM \"user\" WHERE id = ?1");
                let user = self.db().prepare(&sql)?.query_row([id], user)?;
                Ok((!user.is_locked).then(|| Invite::User(Box::new(user))))
            }
        }
    }

    /// Redeems a link: sets the password of its user, or creates `admin` as the first admin. `None` if the link is
    /// invalid or expired.
    pub fn accept_invite(
        &self,
        hash: &Digest,
        admin: Option<&NewUser>,
        password: &str,
        now: OffsetDateTime,
    ) -> Result<Option<Result<User, UserRefusal>>, StoreError> {
        self.write("accepting an invitation", |db| {
            let accepted = match (self.find_invite(hash, now)?, admin) {
                (Some(Invite::User(user)), _) => *user,
                (Some(Invite::FirstAdmin), Some(admin)) => match self.insert_user(admin, now)? {
                    Ok(user) => user,
                    Err(refusal) => return Ok(Some(Err(refusal))),
                },
                _ => return Ok(None),
            };
            self.write_password(accepted.id, password, now)?;
            db.execute("DELETE FROM invite WHERE hash = ?1", [hash.as_slice()])?;
            Ok(Some(Ok(User { has_password: true, ..accepted })))
        })
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::database::{Role, tests::on_both};

    #[test]
    fn sessions_end_in_time_and_with_a_lock() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH + Duration::days(1);
            let new =
                NewUser { name: "a".into(), email: "a@example.org".into(), role: Role::Reader };
            let user = database.create_user(&new, now).expect("written").expect("made");
            let hash = [7; 32];
            let check = |after: Duration, expected: bool| {
                let found = database.session(&hash, now + after).expect("read");
                assert_eq!(found.is_some(), expected, "{after}");
            };
            database
                .create_session(&hash, user.id, now, now + Duration::hours(1))
                .expect("written");
            check(Duration::minutes(59), true);
            check(Duration::hours(1), false);
            // A clock step backwards neither ends nor shortens a session.
            check(-Duration::days(1), true);
            database.extend_session(&hash, now).expect("written");
            check(Duration::minutes(59), true);
            database.extend_session(&hash, now + Duration::hours(2)).expect("written");
            check(Duration::hours(1), true);
            database.set_locked(user.id, true, now).expect("written").expect("locked");
            check(Duration::ZERO, false);
            database.set_locked(user.id, false, now).expect("written").expect("unlocked");
            check(Duration::ZERO, false);
        });
    }

    #[test]
    fn the_first_link_makes_one_admin() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let later = now + Duration::hours(1);
            let admin = |name: &str| NewUser {
                name: name.to_owned(),
                email: format!("{name}@example.org"),
                role: Role::Admin,
            };
            database.create_invite(None, &[1; 32], now, later).expect("written");
            database.create_invite(None, &[2; 32], now, later).expect("written");
            let check = |hash: Digest, now, expected: Option<Invite>| {
                assert_eq!(database.invite(&hash, now).expect("read"), expected);
            };
            check([1; 32], now, None);
            check([2; 32], later, None);
            check([2; 32], now, Some(Invite::FirstAdmin));
            let accept =
                |hash: Digest| database.accept_invite(&hash, Some(&admin("ada")), "hash", now);
            let made = accept([2; 32]).expect("written").expect("good").expect("made");
            assert_eq!((made.role, made.has_password), (Role::Admin, true));
            assert_eq!(accept([2; 32]).expect("written"), None);
            database.create_invite(None, &[3; 32], now, later).expect("written");
            check([3; 32], now, None);
        });
    }

    #[test]
    fn a_reset_ends_sessions_and_works_once() {
        on_both(|database| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let later = now + Duration::hours(1);
            let new =
                NewUser { name: "a".into(), email: "a@example.org".into(), role: Role::Reader };
            let user = database.create_user(&new, now).expect("written").expect("made");
            database.create_session(&[9; 32], user.id, now, later).expect("written");
            database.create_invite(Some(user.id), &[1; 32], now, later).expect("written");
            let accept = || database.accept_invite(&[1; 32], None, "hash", now).expect("written");
            assert!(accept().is_some());
            assert_eq!(database.password_hash(user.id).expect("read").as_deref(), Some("hash"));
            assert!(database.session(&[9; 32], now).expect("read").is_none());
            assert!(accept().is_none());
        });
    }
}
