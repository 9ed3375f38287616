//! Parsers of flag values shared by several verbs: formats, times and percentages.

use std::{
    ops::Bound,
    time::{Duration, SystemTime},
};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use wingbeat_bpf_bench::report;
use wingbeat_track::model::Average;

/// Values of a flag, each with its name and help.
pub(crate) type Values<T> = &'static [(T, &'static str, &'static str)];

/// A type of flag values. Most are defined by libraries, which do not know of flags.
pub(crate) trait Named: Copy + PartialEq + Send + Sync + 'static {
    const VALUES: Values<Self>;

    #[cfg(feature = "server")]
    fn word(self) -> &'static str {
        Self::VALUES.iter().find(|(value, ..)| *value == self).map_or("", |(_, name, _)| *name)
    }
}

/// Parses a value by its name.
pub(crate) fn named<T: Named>() -> impl TypedValueParser<Value = T> {
    let names = T::VALUES
        .iter()
        .map(|(_, name, help)| PossibleValue::new(*name).help((!help.is_empty()).then_some(*help)));
    PossibleValuesParser::new(names).try_map(|given| {
        let found = T::VALUES.iter().find(|(_, name, _)| *name == given);
        found.map(|(value, ..)| *value).ok_or("unknown value")
    })
}

/// Forms of a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Format {
    #[default]
    Human,
    Json,
}

impl Named for Format {
    const VALUES: Values<Self> =
        &[(Self::Human, "human", "Text"), (Self::Json, "json", "For programs")];
}

/// Forms of a result of `bench`, `live` and `top`.
impl Named for report::Format {
    const VALUES: Values<Self> = &[
        (Self::Human, "human", "A table"),
        (Self::Json, "json", "All data"),
        (Self::Bmf, "bmf", "Bencher Metric Format"),
        (Self::Csv, "csv", "A row per program or case"),
    ];
}

/// The statistic that represents a benchmark.
impl Named for Average {
    const VALUES: Values<Self> = &[(Self::Mean, "mean", ""), (Self::Median, "median", "")];
}

/// The flags of a verb with a result: its form, and the short flag for JSON.
#[derive(Debug, clap::Args)]
pub(crate) struct FormatArgs<F: Named> {
    /// Output format
    #[arg(long, value_parser = named::<F>(), value_name = "FORMAT", default_value = "human")]
    #[arg(default_value_if("json", "true", "json"))]
    format: F,
    /// Same as --format json
    #[arg(long = "json", id = "json", overrides_with = "format")]
    _json: bool,
}

impl<F: Named> FormatArgs<F> {
    pub(crate) fn get(&self) -> F {
        self.format
    }
}

/// A duration: 10s, 500ms, in seconds without a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    // Seconds are the default unit, like in perf and sleep.
    let duration = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?,
        Err(_) => humantime::parse_duration(text)
            .map_err(|error| format!("{error}; such as 10s, 500ms or 2m"))?,
    };
    if duration.is_zero() { Err("the time must not be zero".to_owned()) } else { Ok(duration) }
}

/// A size up to 4 GiB; `None` if invalid or larger.
pub(crate) fn size_bytes(text: &str) -> Result<Option<u32>, String> {
    Ok(checked_bytes(text)?.and_then(|bytes| u32::try_from(bytes).ok()))
}

/// A size: 256M, 1G.
pub(crate) fn large_bytes(text: &str) -> Result<u64, String> {
    match checked_bytes(text)? {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err("expected a size, such as 256M or 1G".to_owned()),
    }
}

fn checked_bytes(text: &str) -> Result<Option<u64>, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        _ => return Err(format!("unknown unit {unit:?}: K, M and G are known")),
    };
    Ok(digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift)))
}

/// A time span before now: 30d, 12h, 2weeks.
pub(crate) fn window(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(window) if !window.is_zero() => Ok(window),
        Ok(_) => Err("the time must not be zero".to_owned()),
        Err(error) => Err(format!("{error}; such as 30d or 12h")),
    }
}

/// A date, a time in UTC, or a time with its zone.
pub(crate) fn moment(text: &str) -> Result<OffsetDateTime, String> {
    let spelled = text.trim().replacen(' ', "T", 1);
    let attempts = [
        spelled.clone(),
        format!("{spelled}Z"),
        format!("{spelled}:00Z"),
        format!("{spelled}T00:00:00Z"),
    ];
    let found = attempts.iter().find_map(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    found.ok_or_else(|| {
        "expected a time, such as 2026-11-21, 2026-11-21T14:05 or 2026-11-21T14:05:00+01:00"
            .to_owned()
    })
}

/// A point in time, or an age: 90m, 2d.
pub(crate) fn moment_or_ago(text: &str) -> Result<SystemTime, String> {
    if let Ok(ago) = humantime::parse_duration(text) {
        let moment = SystemTime::now().checked_sub(ago);
        return moment.ok_or_else(|| "that is before all time".to_owned());
    }
    moment(text).map(SystemTime::from).map_err(|_| {
        "expected how long ago, such as 90m or 2d, or a time, such as 2026-11-21, 2026-11-21T14:05 or \
         2026-11-21T14:05:00+01:00"
            .to_owned()
    })
}

/// A fraction: `0.05`, or `5%`.
pub(crate) fn fraction(text: &str) -> Option<f64> {
    match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    }
}

/// A percentage from 0 on, as a fraction.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    share_within(text, (Bound::Included(0.0), Bound::Unbounded))
}

/// A percentage within bounds, as a fraction.
pub(crate) fn share_within(text: &str, bounds: (Bound<f64>, Bound<f64>)) -> Result<f64, String> {
    use std::ops::RangeBounds as _;
    match text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>() {
        Ok(percent) if percent.is_finite() && bounds.contains(&percent) => Ok(percent / 100.0),
        _ => {
            let end = |bound: Bound<f64>, inclusive: &str, exclusive: &str| match bound {
                Bound::Included(end) => format!(" {inclusive} {end}"),
                Bound::Excluded(end) => format!(" {exclusive} {end}"),
                Bound::Unbounded => String::new(),
            };
            let from = end(bounds.0, "from", "above");
            let to = end(bounds.1, "up to", "below");
            Err(format!("expected a percentage{from}{to}, such as 2.5 or 2.5%"))
        }
    }
}

/// A different seed each time.
pub(crate) fn time_seed() -> u64 {
    let since = SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // The low bits of the nanoseconds change most.
    since.map_or(0, |since| u64::try_from(since.as_nanos() & u128::from(u64::MAX)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text, expected: Option<u64>| {
            assert_eq!(duration(text).ok(), expected.map(Duration::from_millis), "{text}");
        };
        check("10s", Some(10_000));
        check("500ms", Some(500));
        check("2m", Some(120_000));
        check("1.5", Some(1_500));
        check("3", Some(3_000));
        check("0", None);
        check("-1", None);
        check("NaN", None);
        check("soon", None);
    }

    #[test]
    fn json_is_a_format() {
        #[derive(clap::Parser)]
        struct Verb {
            #[command(flatten)]
            format: FormatArgs<report::Format>,
        }
        let check = |flags: &[&str], expected: report::Format| {
            let words = ["verb"].iter().chain(flags);
            let verb = <Verb as clap::Parser>::try_parse_from(words).expect("flags");
            assert_eq!(verb.format.get(), expected, "{flags:?}");
        };
        check(&[], report::Format::Human);
        check(&["--json"], report::Format::Json);
        check(&["--format", "csv"], report::Format::Csv);
        check(&["--format", "json", "--json"], report::Format::Json);
        check(&["--json", "--format", "bmf"], report::Format::Bmf);
    }

    #[test]
    fn moments() {
        let check = |text, expected: Option<&str>| {
            let found = moment(text).ok().and_then(|time| time.format(&Rfc3339).ok());
            assert_eq!(found.as_deref(), expected, "{text}");
        };
        check("2026-11-21", Some("2026-11-21T00:00:00Z"));
        check("2026-11-21T14:05", Some("2026-11-21T14:05:00Z"));
        check("2026-11-21 14:05:06", Some("2026-11-21T14:05:06Z"));
        check("2026-11-21T14:05:00+01:00", Some("2026-11-21T14:05:00+01:00"));
        check("yesterday", None);
        check("2026-13-01", None);
        check("", None);
    }

    #[test]
    fn fractions() {
        let check = |text, expected| assert_eq!(fraction(text), expected, "{text}");
        check("0.05", Some(0.05));
        check("5%", Some(0.05));
        check("2.5 %", Some(0.025));
        check("%", None);
        check("5%%", None);
    }

    #[test]
    fn percentages_become_shares() {
        let check = |text, expected| assert_eq!(share(text).ok(), expected, "{text}");
        check("0", Some(0.0));
        check("2.5%", Some(0.025));
        check("2.5 %", Some(0.025));
        check("2.5%%", None);
        check("-1", None);
        check("inf", None);
        check("NaN", None);
        check("much", None);
        let bounds = (Bound::Excluded(-100.0), Bound::Excluded(100.0));
        assert_eq!(share_within("-50", bounds), Ok(-0.5));
        let error = "expected a percentage above -100 below 100, such as 2.5 or 2.5%";
        assert_eq!(share_within("-100", bounds), Err(error.to_owned()));
    }
}
