//! Shared parts of pages: names, times, commits, changes, outcomes, sparklines, forms, pagination.

use maud::{Markup, html};
use time::OffsetDateTime;
use wingbeat_text::{grouped, share::change};
use wingbeat_track::{
    model::{Direction, Measure, Outcome, short_hash},
    output::outcome_word,
};

use super::links::Params;

/// A name, isolated from the direction of the surrounding text.
pub(super) fn name(text: &str) -> Markup {
    html! { bdi class="name" { (text) } }
}

/// A time to the minute; the tooltip has seconds.
pub(super) fn moment(time: OffsetDateTime) -> Markup {
    let time = time.to_offset(time::UtcOffset::UTC);
    let (day, hour, minute) = (day(time), time.hour(), time.minute());
    let exact = format!("{day}T{hour:02}:{minute:02}:{:02}Z", time.second());
    html! { time datetime=(exact) title=(exact) { (day) " " (format!("{hour:02}:{minute:02}")) } }
}

/// `2026-11-25`.
pub(super) fn day(time: OffsetDateTime) -> String {
    let time = time.to_offset(time::UtcOffset::UTC);
    format!("{:04}-{:02}-{:02}", time.year(), u8::from(time.month()), time.day())
}

/// A commit, linked to the project's forge.
pub(super) fn commit(hash: Option<&str>, forge: Option<&str>) -> Markup {
    let Some(hash) = hash else { return html! { span class="quiet" { "no commit" } } };
    let short = html! { code { (short_hash(hash)) } };
    match forge.and_then(|forge| forge_link(forge, hash)) {
        Some(address) => html! { a href=(address) title=(hash) rel="noreferrer" { (short) } },
        None => html! { span title=(hash) { (short) } },
    }
}

/// Forge link of a commit; `None` if it is not an HTTP address.
fn forge_link(forge: &str, hash: &str) -> Option<String> {
    let is_web = forge.starts_with("https://") || forge.starts_with("http://");
    let is_hash = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let forge = forge.trim_end_matches('/').trim_end_matches(".git");
    let folder = match forge {
        forge if forge.contains("://gitlab.") => "-/commit",
        forge if forge.contains("://bitbucket.") => "commits",
        _ => "commit",
    };
    (is_web && is_hash).then(|| format!("{forge}/{folder}/{hash}"))
}

/// Colour of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Bad,
    Good,
    Neutral,
}

impl Tone {
    /// Tone of a significant change of a measure.
    pub(super) fn of(relative: f64, measure: &Measure) -> Self {
        match (measure.direction, relative > 0.0) {
            _ if relative == 0.0 => Self::Neutral,
            (Direction::Unknown, _) => Self::Neutral,
            (Direction::LowerIsBetter, true) | (Direction::HigherIsBetter, false) => Self::Bad,
            _ => Self::Good,
        }
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Bad => "bad",
            Self::Good => "good",
            Self::Neutral => "",
        }
    }
}

/// A change in percent; a dash if unknown.
pub(super) fn percent(relative: Option<f64>, tone: Tone) -> Markup {
    match relative {
        Some(relative) => html! { span class=(tone.class()) { (change(relative)) } },
        None => html! { span class="quiet" { "–" } },
    }
}

/// The word for an outcome, as a badge if notable.
pub(super) fn outcome(outcome: Outcome) -> Markup {
    let class = match outcome {
        Outcome::Worse => "tag bad",
        Outcome::Better => "tag good",
        Outcome::Changed => "tag",
        Outcome::MaybeWorse | Outcome::MaybeBetter | Outcome::MaybeChanged => "tag maybe",
        Outcome::MovedTogether | Outcome::TooNoisy => "tag quiet",
        _ => "quiet",
    };
    html! { span class=(class) { (outcome_word(outcome)) } }
}

/// Hidden fields that keep the query's parameters, except these.
pub(super) fn kept(params: &Params, except: &[&str]) -> Markup {
    html! {
        @for (name, value) in params.iter().filter(|(name, _)| !except.contains(name)) {
            input type="hidden" name=(name) value=(value);
        }
    }
}

/// A dropdown list. The first choice is empty, if it has a name.
pub(super) fn select<'a, T: AsRef<str>>(
    label: &str,
    field: &str,
    none: Option<&str>,
    choices: impl Iterator<Item = (&'a str, T)>,
    chosen: Option<&str>,
) -> Markup {
    html! {
        label { span { (label) }
            select name=(field) {
                @if let Some(none) = none { option value="" { (none) } }
                @for (value, text) in choices {
                    option value=(value) selected[chosen == Some(value)] { (shortened(text.as_ref())) }
                }
            }
        }
    }
}

/// The box that lists what is archived instead of the rest.
pub(super) fn archived_ones(params: &Params) -> Markup {
    html! {
        label class="check" {
            input type="checkbox" name="archived" value="yes" checked[params.get("archived").is_some()];
            span { "archived ones" }
        }
    }
}

/// Shortens a text for a dropdown list.
pub(super) fn shortened(text: &str) -> String {
    wingbeat_text::shortened(text, 60)
}

/// A page of a paginated list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) total: usize,
    pub(super) number: usize,
    pub(super) size: usize,
}

impl Part {
    /// The page that a query asks for with `page`, from 1.
    pub(super) fn of(params: &Params, total: usize, size: usize) -> Self {
        let asked = params.get("page").and_then(|page| page.parse().ok()).unwrap_or(1);
        let last = total.div_ceil(size).max(1);
        Self { total, number: usize::clamp(asked, 1, last), size }
    }

    pub(super) fn take<T>(self, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        all.into_iter().skip((self.number - 1) * self.size).take(self.size)
    }

    /// Links to the adjacent pages, with the total. Empty if everything fits one page.
    pub(super) fn links(self, params: &Params, path: &str) -> Markup {
        let last = self.total.div_ceil(self.size).max(1);
        let at = |number: usize| params.with("page", number.to_string()).at(path);
        html! {
            @if last > 1 {
                nav class="pages" aria-label="Pages" {
                    @if self.number > 1 { a href=(at(self.number - 1)) rel="prev" { "← Previous" } }
                    span class="quiet" {
                        "Page " (self.number) " of " (last) " · " (grouped(self.total)) " in all"
                    }
                    @if self.number < last { a href=(at(self.number + 1)) rel="next" { "Next →" } }
                }
            }
        }
    }
}

/// The header of a sortable column: sorted by the server, or by the script if there is one.
pub(super) fn sortable(
    text: &str,
    key: &str,
    (params, path): (&Params, &str),
    sorted: (&str, bool),
    is_number: bool,
) -> Markup {
    let (is_sorted, is_descending) = (sorted.0 == key, sorted.1);
    // Numbers sort in descending order first.
    let next = match is_sorted {
        true if is_descending => "asc",
        true => "desc",
        false if is_number => "desc",
        false => "asc",
    };
    let order = is_sorted.then_some(if is_descending { "descending" } else { "ascending" });
    let address = params.with("page", "").with("sort", key).with("direction", next).at(path);
    html! {
        th class=[is_number.then_some("number")] aria-sort=[order] {
            a href=(address) { (text) }
        }
    }
}

const SPARK_WIDTH: f32 = 120.0;
const SPARK_HEIGHT: f32 = 24.0;
const SPARK_EDGE: f32 = 3.0;

/// Draws values, oldest first, with a dot at the newest.
pub(super) fn spark(values: &[f32], tone: Tone) -> Markup {
    let points = spark_points(values);
    let Some(&(x, y)) = points.last() else { return html! {} };
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let class = format!("spark {}", tone.class());
    html! {
        svg class=(class) viewBox={ "0 0 " (SPARK_WIDTH) " " (SPARK_HEIGHT) } width=(SPARK_WIDTH) height=(SPARK_HEIGHT)
            aria-hidden="true" {
            polyline points=(path.join(" ")) {}
            circle cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="2" {}
        }
    }
}

/// Positions of the values. The axis spans at least 4 % of their size, so that a steady series looks steady.
fn spark_points(values: &[f32]) -> Vec<(f32, f32)> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let (low, high) = finite().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return Vec::new();
    }
    let middle = low / 2.0 + high / 2.0;
    let span = (high - low).max(middle.abs() * 0.04).max(f32::MIN_POSITIVE);
    let step = (SPARK_WIDTH - 2.0 * SPARK_EDGE) / (values.len().max(2) - 1) as f32;
    let place = |(index, value): (usize, &f32)| {
        let share = (value - middle) / span;
        (
            SPARK_EDGE + step * index as f32,
            SPARK_HEIGHT / 2.0 - share * (SPARK_HEIGHT - 2.0 * SPARK_EDGE),
        )
    };
    values.iter().enumerate().filter(|(_, value)| value.is_finite()).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_linked_to_the_forge() {
        let check = |forge, hash, expected: Option<&str>| {
            assert_eq!(forge_link(forge, hash).as_deref(), expected, "{forge} {hash}");
        };
        check("https://github.com/a/b", "abc", Some("https://github.com/a/b/commit/abc"));
        check("https://github.com/a/b.git", "abc", Some("https://github.com/a/b/commit/abc"));
        check("https://gitlab.com/a/b/", "abc", Some("https://gitlab.com/a/b/-/commit/abc"));
        check("javascript:alert(1)//", "abc", None);
        check("https://github.com/a/b", "../x", None);
    }

    #[test]
    fn parts_of_lists() {
        let check = |page: &str, total, expected: &[usize]| {
            let part = Part::of(&Params::default().with("page", page), total, 2);
            assert_eq!(part.take(0..total).collect::<Vec<_>>(), expected, "{page} of {total}");
        };
        check("", 3, &[0, 1]);
        check("2", 3, &[2]);
        check("9", 3, &[2]);
        check("0", 1, &[0]);
        check("x", 0, &[]);
    }

    #[test]
    fn values_fill_the_height_unless_they_hardly_move() {
        let check = |values: &[f32], expected: &[(f32, f32)]| {
            assert_eq!(spark_points(values), expected, "{values:?}");
        };
        check(&[], &[]);
        check(&[f32::NAN], &[]);
        check(&[1.0], &[(3.0, 12.0)]);
        check(&[1.0, 2.0], &[(3.0, 21.0), (117.0, 3.0)]);
        check(&[0.0, 0.0], &[(3.0, 12.0), (117.0, 12.0)]);
        let steady = spark_points(&[100.0, 101.0]);
        assert!(steady.iter().all(|(_, y)| (9.0..15.0).contains(y)), "{steady:?}");
    }
}
