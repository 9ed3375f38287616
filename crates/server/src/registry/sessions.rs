//! Sessions of signed-in browsers.

use time::OffsetDateTime;
use wingbeat_sql::{OptionalExtension as _, params};

use super::{
    Digest, Registry, RegistryError, Time, User,
    users::{COLUMNS, user},
};

/// A session of a signed-in browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    pub user: User,
    pub created: OffsetDateTime,
    pub expires: OffsetDateTime,
}

impl Registry {
    /// Stores a session, and deletes expired ones.
    pub fn create_session(
        &self,
        hash: &Digest,
        user: i64,
        now: OffsetDateTime,
        expires: OffsetDateTime,
    ) -> Result<(), RegistryError> {
        let create = || {
            let transaction = self.connection.writing()?;
            transaction.execute("DELETE FROM session WHERE expires_ns <= ?1", [Time(now)])?;
            transaction.execute(
                "INSERT INTO session (hash, \"user\", created_ns, expires_ns) VALUES (?1, ?2, ?3, ?4)",
                params![hash.as_slice(), user, Time(now), Time(expires)],
            )?;
            transaction.commit()
        };
        create().map_err(self.error("keeping a session"))
    }

    /// The session of a cookie, unless it has expired or its user is locked.
    pub fn session(
        &self,
        hash: &Digest,
        now: OffsetDateTime,
    ) -> Result<Option<Session>, RegistryError> {
        let find = || {
            let sql = format!(
                "SELECT {COLUMNS}, session.created_ns AS begun_ns, session.expires_ns
                 FROM session JOIN \"user\" ON \"user\".id = session.\"user\"
                 WHERE session.hash = ?1 AND session.expires_ns > ?2 AND \"user\".is_locked = 0"
            );
            self.connection
                .prepare(&sql)?
                .query_row(params![hash.as_slice(), Time(now)], |row| {
                    Ok(Session {
                        user: user(row)?,
                        created: row.get::<_, Time>("begun_ns")?.0,
                        expires: row.get::<_, Time>("expires_ns")?.0,
                    })
                })
                .optional()
        };
        find().map_err(self.error("looking for a session"))
    }

    /// Extends a session; never shortens it.
    pub fn extend_session(
        &self,
        hash: &Digest,
        expires: OffsetDateTime,
    ) -> Result<(), RegistryError> {
        let sql = "UPDATE session SET expires_ns = ?2 WHERE hash = ?1 AND expires_ns < ?2";
        let extend = || self.connection.execute(sql, params![hash.as_slice(), Time(expires)]);
        extend().map(drop).map_err(self.error("extending a session"))
    }

    /// Ends a session.
    pub fn end_session(&self, hash: &Digest) -> Result<(), RegistryError> {
        let sql = "DELETE FROM session WHERE hash = ?1";
        let end = || self.connection.execute(sql, [hash.as_slice()]);
        end().map(drop).map_err(self.error("ending a session"))
    }

    /// Ends all sessions of a user.
    pub fn end_sessions(&self, user: i64) -> Result<(), RegistryError> {
        let end = || self.connection.execute("DELETE FROM session WHERE \"user\" = ?1", [user]);
        end().map(drop).map_err(self.error("ending sessions"))
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::registry::tests::on_both;
    use crate::registry::{NewUser, Role};

    #[test]
    fn sessions_end_in_time_and_with_a_lock() {
        on_both(|registry| {
            let now = OffsetDateTime::UNIX_EPOCH + Duration::days(1);
            let new =
                NewUser { name: "a".into(), email: "a@example.org".into(), role: Role::Reader };
            let user = registry.create_user(&new, now).expect("written").expect("made");
            let hash = [7; 32];
            let check = |after: Duration, expected: bool| {
                let found = registry.session(&hash, now + after).expect("read");
                assert_eq!(found.is_some(), expected, "{after}");
            };
            registry
                .create_session(&hash, user.id, now, now + Duration::hours(1))
                .expect("written");
            check(Duration::minutes(59), true);
            check(Duration::hours(1), false);
            // A clock step backwards neither ends nor shortens a session.
            check(-Duration::days(1), true);
            registry.extend_session(&hash, now).expect("written");
            check(Duration::minutes(59), true);
            registry.extend_session(&hash, now + Duration::hours(2)).expect("written");
            check(Duration::hours(1), true);
            registry.set_locked(user.id, true, now).expect("written").expect("locked");
            check(Duration::ZERO, false);
            registry.set_locked(user.id, false, now).expect("written").expect("unlocked");
            check(Duration::ZERO, false);
        });
    }
}
