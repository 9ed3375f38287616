//! Passwords: argon2id, a few at a time, since each takes 19 MiB and some tens of milliseconds of a core.

use std::sync::Arc;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use tokio::{sync::Semaphore, task};

use crate::ApiError;

/// Bytes of a password. Length is what makes one strong; there are no other rules.
pub const PASSWORD_BYTES_MIN: usize = 10;
const PASSWORD_BYTES_MAX: usize = 1024;

/// Passwords that are hashed at once, and those that may wait for it.
const PARALLEL: usize = 2;
const WAITING_MAX: usize = 32;

/// Hashes passwords, and compares with hashes.
#[derive(Debug, Clone)]
pub struct Passwords {
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Self {
            running: Arc::new(Semaphore::new(PARALLEL)),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }
}

/// Why a password is not taken, in words. `None` if it is.
pub fn fault(password: &str) -> Option<String> {
    match password.len() {
        ..PASSWORD_BYTES_MIN => Some(format!(
            "the password has less than {PASSWORD_BYTES_MIN} characters: choose a longer one"
        )),
        PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX => None,
        _ => Some(format!(
            "the password has more than {PASSWORD_BYTES_MAX} bytes: choose a shorter one"
        )),
    }
}

impl Passwords {
    /// What is kept of a password: a PHC string.
    pub async fn hash(&self, password: String) -> Result<String, ApiError> {
        let hash =
            move || Argon2::default().hash_password(password.as_bytes()).map(|it| it.to_string());
        self.run(hash).await?.map_err(|error| {
            let message = format!("hashing the password failed: {error}; try again");
            ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, message)
        })
    }

    /// Whether it is the password of a hash. Without a hash it takes as long and is not.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, ApiError> {
        let verify = move || {
            let argon2 = Argon2::default();
            match hash {
                Some(hash) => PasswordHash::new(&hash)
                    .is_ok_and(|hash| argon2.verify_password(password.as_bytes(), &hash).is_ok()),
                None => {
                    // Who is not known must not be told apart by the time that the answer takes.
                    let _ = argon2.hash_password(password.as_bytes());
                    false
                }
            }
        };
        self.run(verify).await
    }

    async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let busy = |_| ApiError::busy();
        let _place = self.waiting.try_acquire().map_err(busy)?;
        let permit = self.running.clone().acquire_owned().await.map_err(|_| ApiError::busy())?;
        // The permit goes along: a client that hangs up does not end the work.
        let work = move || {
            let answer = job();
            drop(permit);
            answer
        };
        task::spawn_blocking(work).await.map_err(|_| ApiError::busy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn passwords_are_kept_as_argon2id_with_a_salt() {
        let passwords = Passwords::default();
        let hash = async || passwords.hash("correct horse".to_owned()).await.expect("hashed");
        let (first, second) = (hash().await, hash().await);
        assert!(first.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{first}");
        assert_ne!(first, second);
        let check = async |password: &str, hash: Option<&str>, expected: bool| {
            let verified = passwords.verify(password.to_owned(), hash.map(str::to_owned)).await;
            assert_eq!(verified, Ok(expected), "{password}");
        };
        check("correct horse", Some(&first), true).await;
        check("correct house", Some(&first), false).await;
        check("correct horse", None, false).await;
        check("correct horse", Some("no hash"), false).await;
    }

    #[test]
    fn short_and_huge_passwords_are_refused() {
        let check = |length: usize, expected: Option<&str>| {
            let fault = fault(&"x".repeat(length));
            assert_eq!(fault.is_some(), expected.is_some(), "{length}");
            assert!(fault.unwrap_or_default().contains(expected.unwrap_or_default()));
        };
        check(9, Some("longer"));
        check(10, None);
        check(1024, None);
        check(1025, Some("shorter"));
    }
}
