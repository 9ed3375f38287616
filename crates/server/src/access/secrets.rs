//! Secrets: keys, tokens, cookies and links. All come from the system's random source with at least 178 bits, so a
//! SHA-256 is as good as a slow hash. Only the digest is stored.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest as _, Sha256};

use crate::database::Digest;

/// Key kinds, which the `bencher` client recognizes by prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    User,
    Project,
}

/// The plain text of a key, shown once.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

/// Length of a key after its prefix, and its alphabet.
const KEY_LENGTH: usize = 30;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Header of a token: `{"alg":"none","typ":"wingbeat"}`. Clients check the format only.
const TOKEN_HEAD: &str = "eyJhbGciOiJub25lIiwidHlwIjoid2luZ2JlYXQifQ";
/// Last part of a token, in place of a signature. The key within is the secret.
const TOKEN_TAIL: &str = "d2luZ2JlYXQ";

/// The system's random source failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system's random source failed: {0}; try again")]
pub struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for crate::ApiError {
    fn from(error: NoRandomness) -> Self {
        Self::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}

impl KeyKind {
    fn beginning(self) -> &'static str {
        match self {
            Self::User => "bencher_user_",
            Self::Project => "bencher_run_",
        }
    }
}

impl KeyText {
    /// Generates a key.
    pub fn random(kind: KeyKind) -> Result<Self, NoRandomness> {
        let mut text = kind.beginning().to_owned();
        let length = text.len() + KEY_LENGTH;
        while text.len() < length {
            let mut bytes = [0; 64];
            getrandom::fill(&mut bytes).map_err(NoRandomness)?;
            // Rejection sampling: larger values would bias towards the start of the alphabet.
            let limit = 256 - 256 % ALPHABET.len();
            let fair = bytes.iter().map(|&byte| usize::from(byte)).filter(|&byte| byte < limit);
            let left = length - text.len();
            text.extend(fair.take(left).map(|at| char::from(ALPHABET[at % ALPHABET.len()])));
        }
        Ok(Self(text))
    }

    /// Extracts the key from client input: plain, or as a token. `None` if neither.
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = |text: &str| {
            [KeyKind::User, KeyKind::Project].iter().any(|kind| {
                text.strip_prefix(kind.beginning()).is_some_and(|rest| {
                    rest.len() == KEY_LENGTH
                        && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
                })
            })
        };
        let mut parts = text.split('.');
        let key = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(key), None, None, None) => key.to_owned(),
            (Some(TOKEN_HEAD), Some(key), Some(TOKEN_TAIL), None) => {
                String::from_utf8(URL_SAFE_NO_PAD.decode(key).ok()?).ok()?
            }
            _ => return None,
        };
        is_key(&key).then_some(Self(key))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key in the token format of clients before 0.6.5: three base64 parts, like a JSON web token.
    pub fn token(&self) -> String {
        format!("{TOKEN_HEAD}.{}.{TOKEN_TAIL}", URL_SAFE_NO_PAD.encode(&self.0))
    }

    pub fn digest(&self) -> Digest {
        digest(&self.0)
    }
}

/// Redacted, so that keys do not leak into logs.
impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyText(…)")
    }
}

/// A new 256-bit secret for a cookie or link, in characters valid in both.
pub fn random_text() -> Result<String, NoRandomness> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// The stored digest of a secret.
pub fn digest(secret: &str) -> Digest {
    Sha256::digest(secret.as_bytes()).into()
}

/// A mark of a browser in which a user gave the right password: random text, and a digest of it with the password's
/// hash. So no table of browsers is needed, every server of a database knows the mark, and it ends with the password.
/// The salt of the hash is secret, so the mark does not help to guess the password.
pub fn browser_mark(password_hash: &str) -> Result<String, NoRandomness> {
    let text = random_text()?;
    let proof = URL_SAFE_NO_PAD.encode(digest(&format!("{text} {password_hash}")));
    Ok(format!("{text}.{proof}"))
}

/// Digest of a browser's mark, if it was made with this password hash.
pub fn known_browser(mark: &str, password_hash: &str) -> Option<Digest> {
    let (text, proof) = mark.split_once('.')?;
    let expected = URL_SAFE_NO_PAD.encode(digest(&format!("{text} {password_hash}")));
    // The comparison of digests takes a time that does not tell how much of a forged proof is right.
    (digest(proof) == digest(&expected)).then(|| digest(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_form_that_clients_check() {
        for (kind, beginning) in
            [(KeyKind::User, "bencher_user_"), (KeyKind::Project, "bencher_run_")]
        {
            let key = KeyText::random(kind).expect("random");
            assert!(key.as_str().starts_with(beginning));
            assert_eq!(key.as_str().len(), beginning.len() + 30);
            assert_eq!(KeyText::parse(key.as_str()).as_ref(), Some(&key));
            assert_eq!(KeyText::parse(&key.token()).as_ref(), Some(&key));
            assert_ne!(KeyText::random(kind).expect("random"), key);
            let is_part = |part: &str| !part.is_empty() && URL_SAFE_NO_PAD.decode(part).is_ok();
            let token = key.token();
            assert_eq!(token.split('.').filter(|part| is_part(part)).count(), 3);
            assert!(!format!("{key:?}").contains(key.as_str()));
        }
    }

    #[test]
    fn all_characters_of_the_alphabet_are_drawn_alike() {
        let mut counts = [0_u32; 128];
        for _ in 0..2_000 {
            let key = KeyText::random(KeyKind::Project).expect("random");
            key.as_str()[12..].bytes().for_each(|byte| counts[usize::from(byte)] += 1);
        }
        // 60,000 draws from 62: 968 each, with a standard deviation of 31. Without rejection, eight of them would have
        // 1,172.
        for &byte in ALPHABET {
            let count = counts[usize::from(byte)];
            assert!((780..1_155).contains(&count), "{}: {count}", char::from(byte));
        }
    }

    #[test]
    fn nothing_else_is_a_key() {
        let check = |text: &str| assert_eq!(KeyText::parse(text), None, "{text}");
        check("");
        check("bencher_user_");
        check("bencher_user_0123456789012345678901234567890");
        check("bencher_run_01234567890123456789012345678é");
        check("a.b.c");
        check("bencher_user_012345678901234567890123456789.");
    }
}
