//! A measure: a quantity, its units, its better direction, and whether it is noisy.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wingbeat_text::{Scale, Units};

use super::name::{Slug, is_told_by_slug};

/// The quantity of a metric. Each metric has one, so known titles and units are borrowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub slug: Slug,
    pub name: Cow<'static, str>,
    pub units: Cow<'static, str>,
    pub direction: Direction,
    pub kind: MeasureKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Times, sizes, counts of work.
    #[serde(alias = "lower", alias = "smaller", alias = "smaller-is-better")]
    LowerIsBetter,
    #[serde(alias = "higher", alias = "bigger", alias = "bigger-is-better")]
    HigherIsBetter,
    /// Unknown: changes are shown, but never called better or worse.
    Unknown,
}

impl Direction {
    /// For readers; empty if unknown.
    pub fn words(self) -> &'static str {
        match self {
            Self::LowerIsBetter => "lower is better",
            Self::HigherIsBetter => "higher is better",
            Self::Unknown => "",
        }
    }
}

/// Whether the same code on the same input gives the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeasureKind {
    /// Yes: instructions, sizes, counts of allocations. Any difference is a change.
    Exact,
    /// No: times. A change must exceed the noise.
    Noisy,
}

/// Slug, name, units, direction and kind of a predefined measure.
type Known = (&'static str, &'static str, &'static str, Direction, MeasureKind);

use Direction::{HigherIsBetter as Higher, LowerIsBetter as Lower};
use MeasureKind::{Exact, Noisy};

/// Measures that adapters produce. Those of Bencher have its slugs, names and units.
const KNOWN: &[Known] = &[
    ("latency", "Latency", "nanoseconds (ns)", Lower, Noisy),
    ("throughput", "Throughput", "operations / second (ops/s)", Higher, Noisy),
    ("build-time", "Build Time", "seconds (s)", Lower, Noisy),
    ("file-size", "File Size", "bytes (B)", Lower, Exact),
    ("bytes-per-second", "Bytes per Second", "bytes / second (B/s)", Higher, Noisy),
    ("items-per-second", "Items per Second", "items / second (items/s)", Higher, Noisy),
    ("cpu-time", "CPU Time", "nanoseconds (ns)", Lower, Noisy),
    // Counts of Callgrind and iai. Only addresses make them vary, so code that hashes addresses may need a tolerance.
    // Otherwise they are exact.
    ("instructions", "Instructions", "instructions", Lower, Exact),
    ("l1-accesses", "L1 Accesses", "accesses", Lower, Exact),
    ("l2-accesses", "L2 Accesses", "accesses", Lower, Exact),
    ("ram-accesses", "RAM Accesses", "accesses", Lower, Exact),
    ("l1-hits", "L1 Hits", "hits", Lower, Exact),
    ("l2-hits", "L2 Hits", "hits", Lower, Exact),
    ("ll-hits", "LL Hits", "hits", Lower, Exact),
    ("ram-hits", "RAM Hits", "hits", Lower, Exact),
    ("total-read-write", "Total read+write", "reads/writes", Lower, Exact),
    ("estimated-cycles", "Estimated Cycles", "estimated cycles", Lower, Exact),
    // Additional measures of `wingbeat bench`.
    ("latency-floor", "Latency floor", "nanoseconds (ns)", Lower, Noisy),
    ("latency-p50", "Latency p50", "nanoseconds (ns)", Lower, Noisy),
    ("latency-p90", "Latency p90", "nanoseconds (ns)", Lower, Noisy),
    ("latency-p99", "Latency p99", "nanoseconds (ns)", Lower, Noisy),
    ("latency-p999", "Latency p99.9", "nanoseconds (ns)", Lower, Noisy),
    ("latency-max", "Latency maximum", "nanoseconds (ns)", Lower, Noisy),
    ("net-latency", "Net Latency", "nanoseconds (ns)", Lower, Noisy),
    ("verified-instructions", "Verified Instructions", "instructions", Lower, Exact),
    ("verifier-states", "Verifier States", "states", Lower, Exact),
    ("verifier-peak-states", "Verifier Peak States", "states", Lower, Exact),
    ("verification-time", "Verification Time", "nanoseconds (ns)", Lower, Noisy),
    ("stack-depth", "Stack Depth", "bytes (B)", Lower, Exact),
    ("xlated-size", "Translated Size", "bytes (B)", Lower, Exact),
    ("jited-size", "JITed Size", "bytes (B)", Lower, Exact),
    ("map-memory", "Map Memory", "bytes (B)", Lower, Exact),
    // Allocations, as counted by Go, divan and DHAT.
    ("allocated", "Allocated", "bytes (B)", Lower, Exact),
    ("allocations", "Allocations", "allocations", Lower, Exact),
];

fn known(slug: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.0 == slug)
}

impl Measure {
    /// The known measure of that slug, or a noisy one named after it, of unknown direction.
    pub fn from_slug(slug: Slug) -> Self {
        match known(slug.as_str()) {
            Some(&(_, name, units, direction, kind)) => {
                Self { slug, name: name.into(), units: units.into(), direction, kind }
            }
            None => {
                let name = slug.as_str().to_owned();
                Self {
                    units: format!("{name} (units)").into(),
                    name: name.into(),
                    slug,
                    direction: Direction::Unknown,
                    kind: Noisy,
                }
            }
        }
    }

    /// The measure of that name or slug. A name that is not a slug keeps its spelling as the title.
    pub fn named(text: &str) -> Self {
        let by_name = KNOWN.iter().find(|known| known.1 == text).map(|known| known.0);
        let measure = Self::from_slug(Slug::of_name(by_name.unwrap_or(text)));
        match known(measure.slug.as_str()) {
            Some(_) => measure,
            None => Self {
                name: text.to_owned().into(),
                units: format!("{text} (units)").into(),
                ..measure
            },
        }
    }

    /// A tool-specific measure, in its own units.
    pub fn custom(
        name: impl Into<Cow<'static, str>>,
        units: impl Into<Cow<'static, str>>,
        direction: Direction,
        kind: MeasureKind,
    ) -> Self {
        let name = name.into();
        Self { slug: Slug::of_name(&name), name, units: units.into(), direction, kind }
    }

    /// Whether it is one of those that adapters produce.
    pub fn is_known(&self) -> bool {
        known(self.slug.as_str()).is_some()
    }

    /// Whether its slug is derived from its name, so that the name identifies it.
    pub(crate) fn is_named(&self) -> bool {
        let is_own = || self.slug == Slug::of(&self.name) || self.has_tail();
        !self.is_known() && is_own()
    }

    pub(crate) fn has_tail(&self) -> bool {
        self.slug == Slug::with_tail(&self.name)
    }

    /// Whether both are the same quantity.
    pub fn is(&self, other: &Self) -> bool {
        let are_told_apart = || !self.is_called(other) && self.is_named() && other.is_named();
        self.slug == other.slug && !are_told_apart()
    }

    /// Whether both names refer to the same measure: a title and its slug do, which differ in case and blanks.
    pub(crate) fn is_called<'a>(&'a self, other: &'a Self) -> bool {
        let letter = |byte: u8| if byte == b' ' { b'-' } else { byte.to_ascii_lowercase() };
        let letters = |measure: &'a Self| measure.name.bytes().map(letter);
        self.name == other.name || letters(self).eq(letters(other))
    }

    /// Whether it has units of its own. The default units of an undescribed measure are "NAME (units)".
    pub fn has_units(&self) -> bool {
        !matches!(inner(&self.units), Some("units")) && self.units != "units"
    }

    /// Whether the other measure's series continues this one's, although units or slug differ.
    pub(crate) fn goes_on_as(&self, other: &Self) -> bool {
        let is_same_name = || self.is_called(other) && self.is_named() && other.is_named();
        let is_same_unit = self.units == other.units || self.has_units() != other.has_units();
        is_same_unit && (self.slug == other.slug || is_same_name())
    }

    /// The label in tables: its slug, unless that loses letters of the name.
    pub fn label(&self) -> &str {
        let is_told = is_told_by_slug(&self.name) && !self.has_tail();
        if is_told || !self.is_named() { self.slug.as_str() } else { &self.name }
    }

    /// Its units with their prefixes.
    pub fn ladder(&self) -> Units {
        let is_exact = self.kind == Exact;
        if self.has_units() { Units::new(symbol(self), is_exact) } else { Units::unknown(is_exact) }
    }

    /// The scale for `value`. If `other` differs from it, both stay different as written.
    pub fn scale(&self, value: f64, other: Option<f64>) -> Scale {
        self.ladder().scale(value, other)
    }

    /// Time of a run, in nanoseconds.
    pub fn latency() -> Self {
        Self::named("latency")
    }

    pub fn throughput() -> Self {
        Self::named("throughput")
    }
}

/// The text in the last pair of brackets, or the whole text, unless the measure's name already states it.
fn symbol(measure: &Measure) -> &str {
    let text = measure.units.trim();
    match inner(text) {
        // The default units "NAME (units)" contain no information.
        Some("units") => "",
        Some("us") => "µs",
        Some(inner) if !inner.is_empty() => inner,
        _ if text == "units" => "",
        // Only words count: for "rss-mb" a bare number with a prefix would be wrong by a factor of a million.
        _ if text.len() >= WORD_MIN
            && measure.name.to_lowercase().contains(&text.to_lowercase()) =>
        {
            ""
        }
        _ => text,
    }
}

/// Minimum length of a word among units. Shorter ones are symbols.
const WORD_MIN: usize = 4;

/// The text in the last pair of brackets.
fn inner(units: &str) -> Option<&str> {
    let (_, inner) = units.trim().strip_suffix(')')?.rsplit_once('(')?;
    Some(inner.trim())
}

/// One measurement of a benchmark. All values are finite and in the units of the measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The benchmark's figure: a mean or a median, by the choice of the tool or the user.
    pub value: f64,
    /// Lower end of the spread reported by the tool. Its meaning depends on the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper_value: Option<f64>,
    /// The raw samples in order of measurement, if the tool reports them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
}

impl Metric {
    pub fn new(value: f64) -> Self {
        Self { value, lower_value: None, upper_value: None, samples: Vec::new() }
    }

    pub fn within(self, lower: f64, upper: f64) -> Self {
        Self { lower_value: Some(lower), upper_value: Some(upper), ..self }
    }

    /// Sets both ends of the spread, if known.
    pub(crate) fn with_ends(self, ends: Option<(f64, f64)>) -> Self {
        let Some((lower, upper)) = ends else { return self };
        self.within(lower, upper)
    }

    /// Sets a symmetric spread, if known.
    pub(crate) fn with_error(self, error: Option<f64>) -> Self {
        let value = self.value;
        self.with_ends(error.map(|error| (value - error, value + error)))
    }

    /// Sets the raw samples.
    pub fn with_samples(self, samples: Vec<f64>) -> Self {
        Self { samples, ..self }
    }

    /// Converts to other units. `factor` is the size of these in the new ones.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        let ends = self.lower_value.iter_mut().chain(&mut self.upper_value);
        ends.chain(&mut self.samples).chain([&mut self.value]).for_each(|it| *it *= factor);
        self
    }

    pub fn is_finite(&self) -> bool {
        let ends = [self.lower_value, self.upper_value];
        self.value.is_finite()
            && ends.iter().flatten().chain(&self.samples).all(|value| value.is_finite())
    }
}

/// Measures seen so far, in order, each with its slug. The first name keeps a shared slug, and every other name gets
/// one with a tail.
#[derive(Debug, Clone, Default)]
pub struct Slugs(Vec<(Measure, Slug)>);

impl Slugs {
    /// The slug of a measure among those seen before.
    pub fn of(&mut self, measure: &Measure) -> Slug {
        let find = |is: &dyn Fn(&Measure) -> bool| self.0.iter().find(|(seen, _)| is(seen));
        if let Some((_, slug)) =
            find(&|seen| seen.slug == measure.slug && seen.name == measure.name)
        {
            return slug.clone();
        }
        let slug = if !measure.is_named() {
            measure.slug.clone()
        } else if let Some((_, slug)) = find(&|seen| seen.is_called(measure) && seen.is_named()) {
            slug.clone()
        } else if self.0.iter().any(|(_, slug)| *slug == measure.slug) {
            Slug::with_tail(&measure.name)
        } else {
            measure.slug.clone()
        };
        self.0.push((measure.clone(), slug.clone()));
        slug
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_slugs_are_slugs_and_occur_once() {
        for (index, known) in KNOWN.iter().enumerate() {
            assert!(Slug::new(known.0).is_ok(), "{}", known.0);
            assert!(KNOWN[..index].iter().all(|other| other.0 != known.0), "{}", known.0);
        }
    }

    #[test]
    fn measures_by_name() {
        let check = |text: &str, slug: &str, name: &str, direction| {
            let found = Measure::named(text);
            assert_eq!((found.slug.as_str(), &*found.name), (slug, name));
            assert_eq!(found.direction, direction, "{text}");
        };
        check("latency", "latency", "Latency", Lower);
        check("Latency", "latency", "Latency", Lower);
        check("Build Time", "build-time", "Build Time", Lower);
        check("throughput", "throughput", "Throughput", Higher);
        check("My Score", "my-score", "My Score", Direction::Unknown);
    }

    #[test]
    fn labels() {
        let check = |measure: &Measure, expected| assert_eq!(measure.label(), expected);
        check(&Measure::latency(), "latency");
        check(&Measure::named("My Score"), "my-score");
        check(&Measure::named("延迟"), "延迟");
        check(&Measure { slug: Slug::of("x"), ..Measure::named("延迟") }, "延迟");
        check(&Measure { slug: Slug::with_tail("p99-9"), ..Measure::named("p99-9") }, "p99-9");
    }

    #[test]
    fn symbols() {
        let check = |measure: &Measure, expected| assert_eq!(symbol(measure), expected);
        check(&Measure::latency(), "ns");
        check(&Measure::throughput(), "ops/s");
        check(&Measure::named("instructions"), "");
        check(&Measure::named("verified-instructions"), "");
        check(&Measure::named("score"), "");
        let custom = |units: &'static str, expected| {
            check(&Measure::custom("thing", units, Direction::Unknown, Noisy), expected);
        };
        custom("widgets", "widgets");
        custom("things", "things");
        custom("thing", "");
        custom("units", "");
        custom("thing (units)", "");
        custom("microseconds (us)", "µs");
        custom("clock (Hz)", "Hz");
        let named = |name: &'static str, units: &'static str, expected| {
            check(&Measure::custom(name, units, Direction::Unknown, Noisy), expected);
        };
        named("peak-rss-mb", "MB", "MB");
        named("p99-ns", "ns", "ns");
        named("branch-misses", "misses", "");
    }

    #[test]
    fn values_in_the_units_that_were_said() {
        let check = |units: Option<&'static str>, value: f64, expected| {
            let measure = match units {
                Some(units) => Measure::custom("peak-rss-mb", units, Direction::Unknown, Noisy),
                None => Measure::named("peak-rss-mb"),
            };
            assert_eq!(measure.scale(value, None).with_unit(value), expected, "{units:?}");
        };
        check(Some("MB"), 5000.0, "5.000 GB");
        check(Some("MB"), 0.25, "250.0 kB");
        check(Some("KiB"), 512.0, "512.0 KiB");
        check(Some("requests"), 5000.0, "5.000 k requests");
        check(None, 5000.0, "5,000");
        check(None, 0.25, "0.2500");
    }

    /// The slugs of names, or of known slugs with other names, in sequence.
    fn check_slugs(measures: &[(&str, &str)], expected: &[&str]) {
        let mut slugs = Slugs::default();
        for (&(slug, name), expected) in measures.iter().zip(expected) {
            let measure = match slug {
                "" => Measure::named(name),
                slug => Measure { slug: Slug::of(slug), ..Measure::named(name) },
            };
            let tail = Slug::with_tail(name);
            let expected = if *expected == "+" { tail.as_str() } else { expected };
            assert_eq!(slugs.of(&measure).as_str(), expected, "{name}");
        }
    }

    #[test]
    fn names_are_told_apart() {
        let both = [("", "read_bytes"), ("", "read-bytes"), ("", "read_bytes")];
        check_slugs(&both, &["read-bytes", "+", "read-bytes"]);
        check_slugs(&[("", "p99.9"), ("", "p99-9")], &["p99-9", "+"]);
        // A title, and its slug.
        check_slugs(&[("", "My Score"), ("", "my-score")], &["my-score", "my-score"]);
        // As in an old store.
        check_slugs(
            &[("x", "延迟"), ("x", "内存"), ("", "延迟"), ("", "内存")],
            &["x", "+", "x", "+"],
        );
        check_slugs(&[("", "延迟"), ("", "内存")], &["+", "+"]);
    }

    #[test]
    fn a_slug_that_a_tool_chose_stays() {
        check_slugs(&[("", "latency"), ("", "Latency")], &["latency", "latency"]);
        check_slugs(&[("d1-misses", "D1 read misses"), ("", "d1-misses")], &["d1-misses", "+"]);
    }
}
