//! Two profiles of a benchmark, and how they explain a change of its metric.

use wingbeat_pprof::{
    Change, Explanation, Flame, Metric, Picture, Request, Side, compare, sentences, step,
};

use super::{
    metric::INSTRUCTIONS,
    source_excerpt::{Files, SourceExcerpt, Sources},
};
use crate::{
    model::{Measure, ProfileInfo, Report},
    store::{Store, StoreError},
};

/// Two profiles that explain a change.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub before: ProfileInfo,
    pub after: ProfileInfo,
    pub measure: Measure,
    pub explanation: Explanation,
    /// Source lines of the named functions.
    pub excerpts: Vec<SourceExcerpt>,
    sides: [Side; 2],
}

/// Why an alert has no pair of profiles, or what is wrong with them.
#[derive(Debug, thiserror::Error)]
pub enum Unexplained {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the report has no profile of it; `wingbeat run --profile` takes one")]
    NoProfile,
    #[error("its profile was removed to save space")]
    Removed,
    #[error(
        "no report before it has a profile of it; the next alert will have one to compare with"
    )]
    NoBaseline,
    #[error(
        "the reports have no profiles of it that can be compared; `wingbeat run --profile` takes one with each report"
    )]
    NoPair,
    #[error("the reports have no metric of it in common")]
    NoMetric,
    #[error("no profile is about this measure: time and instructions can be explained")]
    Measure,
    #[error("{0}")]
    Profiles(String),
}

/// Maximum size of an unpacked profile: it may come from elsewhere, and be a decompression bomb.
const UNPACKED_BYTES_MAX: u64 = 64 << 20;

/// Remark for exact profiles with another measure.
const BY_INSTRUCTIONS: &str =
    "divided by instructions, which were counted: the time that each of them takes is not known";

/// The profiles to compare, the earlier one first.
pub(super) struct Asked<'r> {
    pub(super) profiles: [ProfileInfo; 2],
    /// The reports of the profiles. The earlier one may have been deleted.
    pub(super) reports: [Option<&'r Report>; 2],
    pub(super) measure: Measure,
    pub(super) metric: Metric,
}

impl Asked<'_> {
    pub(super) fn read(self, store: &Store, sources: &dyn Sources) -> Result<Pair, Unexplained> {
        let Self { profiles: [before, after], reports, measure, metric } = self;
        let read = |side, profile: &ProfileInfo| {
            let pprof = store.profile_content(profile.sha256)?.ok_or(Unexplained::Removed)?;
            Side::read_within(side, &pprof, UNPACKED_BYTES_MAX)
                .map_err(|error| Unexplained::Profiles(error.to_string()))
        };
        let (earlier, later) = (read("earlier", &before)?, read("later", &after)?);
        let files = Files::of(sources, reports, &later);
        let earlier = files.renumber(earlier);
        // Counts are the metric itself.
        let metric = match measure.slug.as_str() {
            INSTRUCTIONS if later.is_exact() => Metric::of_totals(&earlier, &later),
            _ => metric,
        };
        let explanation = compare(&earlier, &later, metric)
            .map_err(|error| Unexplained::Profiles(error.to_string()))?;
        let places = explanation.guilty.iter().map(|guilty| guilty.place.as_ref());
        let excerpts =
            places.enumerate().filter_map(|(at, place)| files.excerpt(at, &place?.0)).collect();
        Ok(Pair { before, after, measure, explanation, excerpts, sides: [earlier, later] })
    }
}

impl Pair {
    /// The metric before and after, and the difference.
    pub fn whole(&self) -> String {
        step(self.explanation.whole(), &|value| written(&self.measure, value))
    }

    /// Both profiles as one picture.
    pub fn picture(&self, request: Request<'_>) -> Picture {
        let flame = Flame::of(&self.sides[0], &self.sides[1], &self.explanation);
        flame.draw(request, &|value| written(&self.measure, value))
    }

    pub fn sentences(&self) -> Vec<String> {
        let mut all = sentences(&self.explanation, &|value| written(&self.measure, value));
        if self.explanation.is_exact && self.measure.slug.as_str() != INSTRUCTIONS {
            all.push(BY_INSTRUCTIONS.to_owned());
        }
        all
    }
}

/// A difference with its unit, and twice its standard deviation.
pub fn signed(change: Change, measure: &Measure) -> String {
    wingbeat_pprof::signed(change, &|value| written(measure, value))
}

/// A value with its unit, or the measure's name if it has none.
pub fn written(measure: &Measure, value: f64) -> String {
    let ladder = measure.ladder();
    match ladder.own().1 {
        "" => format!("{} {}", ladder.format(value), measure.label()),
        _ => ladder.format(value),
    }
}
