//! Single-use links to set a password: for an invited user, a password reset, or the first admin.

use time::OffsetDateTime;
use wingbeat_sql::{OptionalExtension as _, Result as SqlResult, params};

use super::{
    Digest, NewUser, Registry, RegistryError, Time, User, UserRefusal,
    users::{COLUMNS, user},
};

/// The recipient of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invite {
    /// The holder becomes the first admin.
    FirstAdmin,
    User(Box<User>),
}

impl Registry {
    /// Stores a link for a user, or for the first admin. Invalidates earlier links for the same.
    pub fn create_invite(
        &self,
        user: Option<i64>,
        hash: &Digest,
        now: OffsetDateTime,
        expires: OffsetDateTime,
    ) -> Result<(), RegistryError> {
        let create = || {
            let transaction = self.connection.writing()?;
            transaction
                .execute("DELETE FROM invite WHERE \"user\" IS NOT DISTINCT FROM ?1", [user])?;
            transaction.execute(
                "INSERT INTO invite (hash, \"user\", created_ns, expires_ns) VALUES (?1, ?2, ?3, ?4)",
                params![hash.as_slice(), user, Time(now), Time(expires)],
            )?;
            transaction.commit()
        };
        create().map_err(self.error("keeping an invitation"))
    }

    /// Resolves a link, if valid.
    pub fn invite(
        &self,
        hash: &Digest,
        now: OffsetDateTime,
    ) -> Result<Option<Invite>, RegistryError> {
        self.find_invite(hash, now).map_err(self.error("looking for an invitation"))
    }

    fn find_invite(&self, hash: &Digest, now: OffsetDateTime) -> SqlResult<Option<Invite>> {
        let sql = "SELECT \"user\" FROM invite WHERE hash = ?1 AND expires_ns > ?2";
        let found = self
            .connection
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
                let user = self.connection.prepare(&sql)?.query_row([id], user)?;
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
    ) -> Result<Option<Result<User, UserRefusal>>, RegistryError> {
        let accept = || {
            let transaction = self.connection.writing()?;
            let accepted = match (self.find_invite(hash, now)?, admin) {
                (Some(Invite::User(user)), _) => *user,
                (Some(Invite::FirstAdmin), Some(admin)) => match self.insert_user(admin, now)? {
                    Ok(user) => user,
                    Err(refusal) => return Ok(Some(Err(refusal))),
                },
                _ => return Ok(None),
            };
            self.write_password(accepted.id, password, now)?;
            transaction.execute("DELETE FROM invite WHERE hash = ?1", [hash.as_slice()])?;
            transaction.commit()?;
            Ok(Some(Ok(User { has_password: true, ..accepted })))
        };
        accept().map_err(self.error("accepting an invitation"))
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;
    use crate::registry::Role;
    use crate::registry::tests::on_both;

    #[test]
    fn the_first_link_makes_one_admin() {
        on_both(|registry| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let later = now + Duration::hours(1);
            let admin = |name: &str| NewUser {
                name: name.to_owned(),
                email: format!("{name}@example.org"),
                role: Role::Admin,
            };
            registry.create_invite(None, &[1; 32], now, later).expect("written");
            registry.create_invite(None, &[2; 32], now, later).expect("written");
            let check = |hash: Digest, now, expected: Option<Invite>| {
                assert_eq!(registry.invite(&hash, now).expect("read"), expected);
            };
            check([1; 32], now, None);
            check([2; 32], later, None);
            check([2; 32], now, Some(Invite::FirstAdmin));
            let accept =
                |hash: Digest| registry.accept_invite(&hash, Some(&admin("ada")), "hash", now);
            let made = accept([2; 32]).expect("written").expect("good").expect("made");
            assert_eq!((made.role, made.has_password), (Role::Admin, true));
            assert_eq!(accept([2; 32]).expect("written"), None);
            registry.create_invite(None, &[3; 32], now, later).expect("written");
            check([3; 32], now, None);
        });
    }

    #[test]
    fn a_reset_ends_sessions_and_works_once() {
        on_both(|registry| {
            let now = OffsetDateTime::UNIX_EPOCH;
            let later = now + Duration::hours(1);
            let new =
                NewUser { name: "a".into(), email: "a@example.org".into(), role: Role::Reader };
            let user = registry.create_user(&new, now).expect("written").expect("made");
            registry.create_session(&[9; 32], user.id, now, later).expect("written");
            registry.create_invite(Some(user.id), &[1; 32], now, later).expect("written");
            let accept = || registry.accept_invite(&[1; 32], None, "hash", now).expect("written");
            assert!(accept().is_some());
            assert_eq!(registry.password_hash(user.id).expect("read").as_deref(), Some("hash"));
            assert!(registry.session(&[9; 32], now).expect("read").is_none());
            assert!(accept().is_none());
        });
    }
}
