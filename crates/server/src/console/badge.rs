//! Badges for a README: small standalone SVGs.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use wingbeat_text::{plural, share::change};
use wingbeat_track::{
    model::AlertStatus,
    store::{AlertFilter, ReportFilter},
};

use super::{
    choice::Choice, components::Tone, links::Params, page_context::PageContext, series::rows,
};
use crate::{
    ApiError,
    database::{Kind, SeriesRow},
    names::Names,
};

/// Maximum alerts counted.
const ALERTS_MAX: usize = 1000;

/// Maximum characters of each half.
const LETTERS_MAX: usize = 48;

/// Text of a badge.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Badge {
    left: String,
    right: String,
    tone: Tone,
}

pub(super) async fn show(context: PageContext, params: Params) -> Result<Response, ApiError> {
    let asked = params.clone();
    let names = context.names.clone();
    let read = context.read(move |database, project| {
        let choice = Choice::of(database, project, &asked, &names)?;
        if asked.get("benchmark").is_some() {
            let rows = rows(database, project, &choice)?;
            return Ok(of_series(rows.iter().max_by_key(|row| row.newest.time), &names));
        }
        let reports = ReportFilter {
            branch: choice.branches.first().cloned(),
            ..ReportFilter::of(&project.stored)
        };
        let status = Some(AlertStatus::Active);
        let filter = AlertFilter { reports, status, ..project.alerts(false) };
        Ok(of_alerts(database.results.alerts(&filter, ALERTS_MAX)?.len()))
    });
    let mut response = draw(&read.await?).into_string().into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, "image/svg+xml"),
        (header::CACHE_CONTROL, "public, max-age=60"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

fn of_series(row: Option<&SeriesRow>, names: &Names) -> Badge {
    let Some(row) = row else {
        let (left, right) = ("benchmark".to_owned(), "no results".to_owned());
        return Badge { left, right, tone: Tone::Neutral };
    };
    let value = row.measure.ladder().format(row.newest.value);
    let recent =
        row.last_change_point.as_ref().filter(|it| it.is_recent).and_then(|it| it.relative);
    Badge {
        left: format!(
            "{} {}",
            names.shown(Kind::Benchmark, row.benchmark.as_str()),
            names.measure(&row.measure)
        ),
        right: match recent {
            Some(relative) => format!("{value}, {}", change(relative)),
            None => value,
        },
        tone: recent.map_or(Tone::Neutral, |relative| Tone::of(relative, &row.measure)),
    }
}

fn of_alerts(alerts: usize) -> Badge {
    let left = "benchmarks".to_owned();
    match alerts {
        0 => Badge { left, right: "no regression".to_owned(), tone: Tone::Good },
        _ => Badge { left, right: plural(alerts, "alert"), tone: Tone::Bad },
    }
}

fn draw(badge: &Badge) -> Markup {
    let [left, right] =
        [&badge.left, &badge.right].map(|text| wingbeat_text::shortened(text, LETTERS_MAX));
    // Width of an 11-pixel sans-serif letter; texts are stretched to it.
    let width = |text: &str| wingbeat_text::width(text) as f64 * 6.4;
    let (first, second) = (width(&left), width(&right));
    let (middle, end) = (first + 14.0, first + second + 28.0);
    let colour = match badge.tone {
        Tone::Bad => "#c0182f",
        Tone::Good => "#18794e",
        Tone::Neutral => "#3f5f8a",
    };
    let text = |x: f64, length: f64, text: &str| {
        html! {
            text x=(x) y="14" textLength=(format!("{length:.0}")) lengthAdjust="spacingAndGlyphs" { (text) }
        }
    };
    html! {
        svg xmlns="http://www.w3.org/2000/svg" width=(format!("{end:.0}")) height="20" role="img"
            aria-label={ (left) ": " (right) } {
            title { (left) ": " (right) }
            clipPath id="corners" { rect width=(format!("{end:.0}")) height="20" rx="4" {} }
            g clip-path="url(#corners)" {
                rect width=(format!("{end:.0}")) height="20" fill="#3a414a" {}
                rect x=(format!("{middle:.0}")) width=(format!("{:.0}", end - middle)) height="20" fill=(colour) {}
            }
            g fill="#ffffff" font-family="system-ui, Verdana, 'DejaVu Sans', sans-serif" font-size="11" {
                (text(7.0, first, &left))
                (text(middle + 7.0, second, &right))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn badges_hold_any_text() {
        let badge = |right: &str| Badge {
            left: "benchmarks".to_owned(),
            right: right.to_owned(),
            tone: Tone::Neutral,
        };
        let svg = draw(&badge("<script>&")).into_string();
        assert!(svg.contains("&lt;script&gt;&amp;") && !svg.contains("<script>"), "{svg}");
        let long = draw(&badge(&"x".repeat(4096))).into_string();
        assert!(long.len() < 2000, "{}", long.len());
    }

    #[test]
    fn alerts_are_counted() {
        let check = |alerts, expected| assert_eq!(of_alerts(alerts).right, expected);
        check(0, "no regression");
        check(1, "1 alert");
        check(3, "3 alerts");
    }
}
