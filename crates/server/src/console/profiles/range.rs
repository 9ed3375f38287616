//! The time range of an address: `last=1h`, or `from` and `until`.

use time::{
    Date, OffsetDateTime, PrimitiveDateTime,
    format_description::{StaticFormatDescription, well_known::Rfc3339},
    macros::format_description,
};

use crate::{ApiError, console::links::Params, profiles::Span};

const SECOND_NS: i64 = 1_000_000_000;

/// Predefined ranges.
pub(super) const LASTS: [(&str, &str); 6] = [
    ("15m", "15 minutes"),
    ("1h", "hour"),
    ("6h", "6 hours"),
    ("24h", "24 hours"),
    ("3d", "3 days"),
    ("7d", "7 days"),
];

/// Default range.
const USUAL_NS: i64 = 3600 * SECOND_NS;

/// Minimum and maximum range.
const LEAST_NS: i64 = SECOND_NS;
const MOST_NS: i64 = 400 * 86_400 * SECOND_NS;

const MINUTE: StaticFormatDescription = format_description!("[year]-[month]-[day]T[hour]:[minute]");
const SHOWN: StaticFormatDescription =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");
const WRITTEN: StaticFormatDescription =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");

/// Parameter names of a time range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) last: &'static str,
    pub(super) from: &'static str,
    pub(super) until: &'static str,
}

/// The selected range.
pub(super) const FIELDS: Fields = Fields { last: "last", from: "from", until: "until" };
/// The baseline.
pub(super) const BASE: Fields =
    Fields { last: "base_last", from: "base_from", until: "base_until" };

impl Fields {
    /// The range in an address; `None` if absent.
    pub(super) fn read(self, params: &Params, now_ns: i64) -> Result<Option<Span>, ApiError> {
        let time = |field: &str| params.get(field).map(|text| parsed(text.trim())).transpose();
        let span = match (time(self.from)?, time(self.until)?, params.get(self.last)) {
            (Some(from_ns), Some(until_ns), _) => Span { from_ns, until_ns },
            (Some(from_ns), None, None) => Span { from_ns, until_ns: now_ns },
            (from, until, last) => {
                if (from, until, last) == (None, None, None) {
                    return Ok(None);
                }
                let length_ns = last.map_or(Ok(USUAL_NS), length)?;
                match (from, until) {
                    (Some(from_ns), _) => Span { from_ns, until_ns: from_ns + length_ns },
                    (None, until) => {
                        let until_ns = until.unwrap_or(now_ns);
                        Span { from_ns: until_ns - length_ns, until_ns }
                    }
                }
            }
        };
        let length_ns = span.until_ns.saturating_sub(span.from_ns);
        if !(LEAST_NS..=MOST_NS).contains(&length_ns) {
            return Err(ApiError::bad_request(format!(
                "cannot show the time from {} until {}: it has to end after it begins and be shorter than 400 days",
                shown(span.from_ns),
                shown(span.until_ns)
            )));
        }
        Ok(Some(span))
    }

    /// The address of a range.
    pub(super) fn write(self, params: &Params, span: Span) -> Params {
        params
            .with(self.last, "")
            .with(self.from, written(span.from_ns))
            .with(self.until, written(span.until_ns))
    }

    /// The address of a range that ends now.
    pub(super) fn write_last(self, params: &Params, last: &str) -> Params {
        params.with(self.from, "").with(self.until, "").with(self.last, last)
    }
}

/// The last hour, or the last one with data.
pub(super) fn usual(newest_ns: i64, now_ns: i64) -> Span {
    let until_ns = if newest_ns < now_ns - USUAL_NS { newest_ns } else { now_ns };
    Span { from_ns: until_ns - USUAL_NS, until_ns }
}

fn parsed(text: &str) -> Result<i64, ApiError> {
    let parse = || {
        if let Ok(time) = OffsetDateTime::parse(text, &Rfc3339) {
            return Some(time);
        }
        let text = text.replace(' ', "T");
        let minute = PrimitiveDateTime::parse(&text, MINUTE).ok();
        let second = || {
            OffsetDateTime::parse(&format!("{text}Z"), &Rfc3339)
                .ok()
                .map(|it| (it.date(), it.time()))
        };
        let day = || {
            let format = format_description!("[year]-[month]-[day]");
            Date::parse(&text, format).ok().map(Date::midnight)
        };
        let found = minute
            .or_else(|| second().map(|(date, time)| PrimitiveDateTime::new(date, time)))
            .or_else(day)?;
        Some(found.assume_utc())
    };
    // Keeps arithmetic with lengths in range.
    let is_near = |time: &OffsetDateTime| (1970..2200).contains(&time.year());
    let ns =
        parse().filter(is_near).and_then(|time| i64::try_from(time.unix_timestamp_nanos()).ok());
    ns.ok_or_else(|| {
        let text: String = text.chars().take(40).collect();
        ApiError::bad_request(format!(
            "invalid time {text:?}: expected one like 2026-11-28T02:15:00Z or 2026-11-28 02:15, in UTC"
        ))
    })
}

fn length(text: &str) -> Result<i64, ApiError> {
    let wrong = || {
        let text: String = text.chars().take(40).collect();
        ApiError::bad_request(format!("invalid duration {text:?}: expected one like 15m, 6h or 3d"))
    };
    let (number, unit) =
        text.split_at(text.len() - text.chars().next_back().map_or(0, char::len_utf8));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: i64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(seconds * SECOND_NS).filter(|ns| *ns > 0).ok_or_else(wrong)
}

fn moment(ns: i64) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(ns.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH)
}

/// Address format.
pub(super) fn written(ns: i64) -> String {
    moment(ns).format(WRITTEN).unwrap_or_default()
}

/// Display format, in UTC.
pub(super) fn shown(ns: i64) -> String {
    moment(ns).format(SHOWN).unwrap_or_default()
}

/// Both ends for display; a common day only once.
pub(super) fn span_shown(span: Span) -> String {
    let (from, until) = (shown(span.from_ns), shown(span.until_ns));
    let until = match from.get(..11) == until.get(..11) {
        true => until.get(11..).unwrap_or(&until).to_owned(),
        false => until,
    };
    format!("{from} to {until} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-28T02:00:00Z.
    const NOW: i64 = 1_795_831_200 * SECOND_NS;

    #[test]
    fn times_are_read() {
        let check = |query: &[(&str, &str)], expected: &str| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let params = Params::of(query.iter().map(owned).collect());
            let found = match FIELDS.read(&params, NOW) {
                Ok(Some(span)) => span_shown(span),
                Ok(None) => "none".to_owned(),
                Err(error) => error.message,
            };
            assert!(found.contains(expected), "{query:?}: {found}");
        };
        check(&[], "none");
        check(&[("last", "15m")], "2026-11-28 01:45:00 to 02:00:00 UTC");
        check(&[("last", "1d")], "2026-11-27 02:00:00 to 2026-11-28 02:00:00 UTC");
        check(
            &[("from", "2026-11-28T01:00"), ("until", "2026-11-28 01:30:15")],
            "2026-11-28 01:00:00 to 01:30:15 UTC",
        );
        check(&[("from", "2026-11-28")], "2026-11-28 00:00:00 to 02:00:00");
        check(
            &[("from", "2026-11-27T00:00:00+01:00"), ("last", "1h")],
            "2026-11-26 23:00:00 to 2026-11-27 00:00:00",
        );
        check(&[("until", "2026-11-28T01:00:00Z")], "2026-11-28 00:00:00 to 01:00:00");
        check(&[("last", "0h")], "invalid duration");
        check(&[("last", "é")], "invalid duration");
        check(&[("last", "99999999999999d")], "invalid duration");
        check(&[("from", "yesterday")], "invalid time \"yesterday\"");
        check(&[("from", "2026-11-28"), ("until", "2026-11-27")], "end after it begins");
        check(&[("from", "1970-01-01")], "shorter than 400 days");
    }
}
