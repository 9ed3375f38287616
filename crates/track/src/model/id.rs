//! Short forms of UUIDs and commit hashes. UUIDs are shortened to their last digits, since those created within a
//! minute begin alike.

use uuid::Uuid;

const LENGTH: usize = 8;

/// The last eight digits of a UUID. Accepted by every command that takes a UUID.
pub fn short_id(uuid: Uuid) -> String {
    let digits = uuid.simple().to_string();
    digits[digits.len() - LENGTH..].to_owned()
}

/// The first ten digits of a commit's hash.
pub fn short_hash(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_digits() {
        assert_eq!(short_id(Uuid::from_u128((1 << 100) | 0xbeef)), "0000beef");
    }
}
