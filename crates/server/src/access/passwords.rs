//! Password hashing with argon2id, with limited concurrency: each hash takes 19 MiB and tens of milliseconds of a core.

use std::sync::Arc;

use argon2::{
    Argon2,
    password_hash::{PasswordHasher as _, PasswordVerifier as _, phc::PasswordHash},
};
use tokio::{sync::Semaphore, task};

use crate::ApiError;

/// Password length in bytes. Length is the only rule.
pub const PASSWORD_BYTES_MIN: usize = 10;
const PASSWORD_BYTES_MAX: usize = 1024;

/// Concurrent hashes, and maximum queue length.
const PARALLEL: usize = 2;
const WAITING_MAX: usize = 32;

/// Hashes and verifies passwords.
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

/// Why a password is rejected, as text; `None` if accepted.
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
    /// The PHC string to store for a password.
    pub async fn hash(&self, password: String) -> Result<String, ApiError> {
        let hash =
            move || Argon2::default().hash_password(password.as_bytes()).map(|it| it.to_string());
        self.run(hash).await?.map_err(|error| {
            let message = format!("hashing the password failed: {error}; try again");
            ApiError::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, message)
        })
    }

    /// Verifies a password against a hash. Without a hash, takes the same time and fails.
    pub async fn verify(&self, password: String, hash: Option<String>) -> Result<bool, ApiError> {
        let verify = move || {
            let argon2 = Argon2::default();
            match hash {
                Some(hash) => PasswordHash::new(&hash)
                    .is_ok_and(|hash| argon2.verify_password(password.as_bytes(), &hash).is_ok()),
                None => {
                    // Timing must not reveal whether an account exists.
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
        // The permit moves along, because the work continues after a client disconnects.
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
