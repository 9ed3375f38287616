//! Addresses: paths of names, and queries whose parameters persist across pages.

use std::fmt::Write as _;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};

use crate::ApiError;

/// Percent-encodes a part of a path or query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

/// Maximum parameters of an address, and maximum bytes of one: a client's link lists the UUIDs of all benchmarks of a
/// plot in one value.
const PARAMS_MAX: usize = 512;
const VALUE_BYTES_MAX: usize = 16 << 10;

/// Maximum values with globs: each is matched with each name.
const GLOBS_MAX: usize = 16;

/// Whether a text is a glob.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Query parameters, in order. Ignores unknown ones, and drops empty ones.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// The fields of a form as parameters.
    pub(super) fn of(mut all: Vec<(String, String)>) -> Self {
        all.retain(|(_, value)| !value.trim().is_empty());
        Self(all)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a repeatable parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Sets one parameter, or removes it if empty.
    #[must_use]
    pub(super) fn with(&self, name: &str, value: impl Into<String>) -> Self {
        let mut all: Vec<_> = self.0.iter().filter(|(key, _)| key != name).cloned().collect();
        let value = value.into();
        if !value.is_empty() {
            all.push((name.to_owned(), value));
        }
        Self(all)
    }

    /// Adds one value.
    #[must_use]
    pub(super) fn and(&self, name: &str, value: impl Into<String>) -> Self {
        let mut all = self.0.clone();
        all.push((name.to_owned(), value.into()));
        Self(all)
    }

    /// Keeps only these names.
    #[must_use]
    pub(super) fn only(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(key, _)| names.contains(&key.as_str())).cloned().collect())
    }

    /// The address of a path with this query.
    pub(super) fn at(&self, path: &str) -> String {
        let mut out = path.to_owned();
        for (index, (name, value)) in self.0.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            // Writing to a string cannot fail.
            let _ = write!(out, "{mark}{}={}", encoded(name), encoded(value));
        }
        out
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Query(all): Query<Vec<(String, String)>> =
            Query::try_from_uri(&parts.uri).map_err(|error| {
                ApiError::bad_request(format!("the query of this address cannot be read: {error}"))
            })?;
        let globs = all.iter().filter(|(_, value)| is_glob(value)).count();
        let is_long = |(name, value): &(String, String)| name.len() + value.len() > VALUE_BYTES_MAX;
        if all.len() > PARAMS_MAX || globs > GLOBS_MAX || all.iter().any(is_long) {
            return Err(ApiError::bad_request(format!(
                "this address asks for too much: at most {PARAMS_MAX} parameters of {VALUE_BYTES_MAX} bytes each, and \
                 {GLOBS_MAX} globs"
            )));
        }
        Ok(Self::of(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded() {
        let check = |text, expected| assert_eq!(encoded(text), expected);
        check("main", "main");
        check("feature/x y", "feature%2Fx%20y");
        check("é?&=#", "%C3%A9%3F%26%3D%23");
    }

    #[test]
    fn queries_keep_what_is_not_changed() {
        let query = Params::default().with("branch", "main").and("branch", "a/b").with("sort", "x");
        let check = |query: Params, expected| assert_eq!(query.at("/p"), expected);
        check(query.clone(), "/p?branch=main&branch=a%2Fb&sort=x");
        check(query.with("branch", ""), "/p?sort=x");
        check(query.only(&["sort"]), "/p?sort=x");
        check(Params::default(), "/p");
    }
}
