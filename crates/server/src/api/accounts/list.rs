//! Which part of a list is wanted.

use axum::{
    Json,
    http::{HeaderName, HeaderValue},
};
use serde::{Deserialize, Serialize};

/// Which part of a list by name is wanted.
#[derive(Debug, Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
pub(super) struct Wanted {
    #[param(inline)]
    direction: Direction,
    per_page: Option<u8>,
    page: Option<u32>,
    /// Exactly this name.
    name: Option<String>,
    /// A part of the name.
    search: Option<String>,
    /// Revoked keys instead of those in force.
    pub(super) revoked: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
enum Direction {
    #[default]
    Asc,
    Desc,
}

/// A page of a list, and how long the list is.
pub(super) type Listed<T> = ([(HeaderName, HeaderValue); 1], Json<Vec<T>>);

const PER_PAGE: u8 = 8;

impl Wanted {
    /// The wanted page of a list that is sorted by name.
    pub(super) fn page<T, J: Serialize>(
        &self,
        mut all: Vec<T>,
        name: impl Fn(&T) -> &str,
        json: impl Fn(&T) -> J,
    ) -> Listed<J> {
        let search = self.search.as_ref().map(|it| it.to_lowercase());
        all.retain(|it| self.name.as_ref().is_none_or(|wanted| name(it) == wanted));
        all.retain(|it| search.as_ref().is_none_or(|part| name(it).to_lowercase().contains(part)));
        if self.direction == Direction::Desc {
            all.reverse();
        }
        let per_page = usize::from(self.per_page.unwrap_or(PER_PAGE));
        let before = (self.page.unwrap_or(1).max(1) as usize - 1).saturating_mul(per_page);
        let page = all.iter().skip(before).take(per_page).map(json).collect();
        let total = HeaderName::from_static("x-total-count");
        ([(total, HeaderValue::from(all.len()))], Json(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_cut_from_what_was_searched() {
        let check = |wanted: Wanted, total: &str, expected: &[&str]| {
            let all = ["alpha", "beta", "Gamma", "gamma 2"].to_vec();
            let (header, Json(page)) = wanted.page(all, |it| it, |it| (*it).to_owned());
            assert_eq!(
                (header[0].1.to_str().expect("text"), page),
                (total, expected.iter().map(|it| (*it).to_owned()).collect())
            );
        };
        check(Wanted::default(), "4", &["alpha", "beta", "Gamma", "gamma 2"]);
        check(
            Wanted { per_page: Some(2), page: Some(2), ..Default::default() },
            "4",
            &["Gamma", "gamma 2"],
        );
        check(
            Wanted { per_page: Some(2), page: Some(0), ..Default::default() },
            "4",
            &["alpha", "beta"],
        );
        check(Wanted { per_page: Some(255), page: Some(u32::MAX), ..Default::default() }, "4", &[]);
        check(
            Wanted { search: Some("gam".into()), ..Default::default() },
            "2",
            &["Gamma", "gamma 2"],
        );
        check(Wanted { name: Some("beta".into()), ..Default::default() }, "1", &["beta"]);
        check(
            Wanted { direction: Direction::Desc, per_page: Some(1), ..Default::default() },
            "4",
            &["gamma 2"],
        );
    }
}
