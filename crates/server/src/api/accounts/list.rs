//! Filters of user and key lists.

use serde::Deserialize;

use super::super::request::{Listed, Paging};

/// Which entries of a list by name are wanted.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
pub(super) struct Wanted {
    /// Exactly this name.
    name: Option<String>,
    /// A part of the name.
    search: Option<String>,
    /// Revoked keys instead of those in force.
    pub(super) revoked: bool,
}

impl Wanted {
    /// The requested page of a list sorted by name.
    pub(super) fn page<T, J>(
        &self,
        paging: Paging,
        mut all: Vec<T>,
        name: impl Fn(&T) -> &str,
        json: impl Fn(&T) -> J,
    ) -> Listed<J> {
        let search = self.search.as_ref().map(|it| it.to_lowercase());
        all.retain(|it| self.name.as_ref().is_none_or(|wanted| name(it) == wanted));
        all.retain(|it| search.as_ref().is_none_or(|part| name(it).to_lowercase().contains(part)));
        if paging.is_descending(false) {
            all.reverse();
        }
        let (page, count) = paging.of(all);
        Listed(page.iter().map(json).collect(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_searched() {
        let check = |wanted: Wanted, expected: &[&str]| {
            let all = ["alpha", "beta", "Gamma", "gamma 2"].to_vec();
            let count = expected.len() as u64;
            let Listed(page, all) =
                wanted.page(Paging::default(), all, |it| it, |it| (*it).to_owned());
            assert_eq!((page, all), (expected.iter().map(|it| (*it).to_owned()).collect(), count));
        };
        check(Wanted::default(), &["alpha", "beta", "Gamma", "gamma 2"]);
        check(Wanted { search: Some("gam".into()), ..Default::default() }, &["Gamma", "gamma 2"]);
        check(Wanted { name: Some("beta".into()), ..Default::default() }, &["beta"]);
    }
}
