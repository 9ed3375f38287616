//! Comparisons of a time range that are one click away.

use wingbeat_text::shortened;

use super::{
    compare::BASE_LABEL,
    range::{BASE, FIELDS},
};
use crate::{
    console::links::Params,
    profiles::{Series, Span},
};

const SECOND_NS: i64 = 1_000_000_000;

/// A version without profiles for that long has ended.
const GAP_NS: i64 = 300 * SECOND_NS;

/// Labels that name a version.
const VERSION: [&str; 5] =
    ["version", "service_version", "service.version", "service_git_ref", "app_version"];

/// Comparisons of a time range that are one click away, with their words: an hour and a day before, and the deploy
/// before. `all` are the series of all labels.
pub(super) fn presets(
    all: &[Series],
    span: Span,
    now_ns: i64,
    params: &Params,
) -> Vec<(String, Params)> {
    let params = params.only(&["type", "label", "search"]);
    let labels: Vec<&str> = params.all("label").collect();
    let with_base = |before: Span| {
        let both = BASE.write(&FIELDS.write(&params, span), before);
        labels.iter().fold(both, |params, label| params.and(BASE_LABEL, *label))
    };
    let length_ns = span.until_ns - span.from_ns;
    let previous = Span { from_ns: span.from_ns - length_ns, until_ns: span.from_ns };
    let mut found = vec![("the previous time range".to_owned(), with_base(previous))];
    for (words, apart_ns) in
        [("an hour before", 3600 * SECOND_NS), ("a day before", 86_400 * SECOND_NS)]
    {
        // A longer range would overlap, and an equal one is the previous.
        if length_ns < apart_ns {
            let before =
                Span { from_ns: span.from_ns - apart_ns, until_ns: span.until_ns - apart_ns };
            found.push((words.to_owned(), with_base(before)));
        }
    }
    found.extend(deploy_before(all, span, now_ns, &params));
    found
}

/// The comparison of the newest version, or of the selected one, with the one before. `None` without two versions.
fn deploy_before(
    all: &[Series],
    span: Span,
    now_ns: i64,
    params: &Params,
) -> Option<(String, Params)> {
    let label =
        VERSION.iter().find(|label| all.iter().any(|it| it.labels.contains_key(**label)))?;
    // In the order of their first profiles, with the time of their newest.
    let mut versions: Vec<(&str, i64)> = Vec::new();
    let mut in_order: Vec<&Series> = all.iter().collect();
    in_order.sort_by_key(|series| series.id);
    for series in in_order {
        let Some(version) = series.labels.get(*label) else { continue };
        match versions.iter_mut().find(|(known, _)| known == version) {
            Some((_, newest_ns)) => *newest_ns = series.newest_ns.max(*newest_ns),
            None => versions.push((version, series.newest_ns)),
        }
    }
    let others =
        || params.all("label").filter(|it| it.split_once('=').map(|it| it.0) != Some(label));
    let chosen = params.all("label").find_map(|it| it.split_once('=').filter(|it| it.0 == *label));
    let current = match chosen {
        Some((_, version)) => versions.iter().position(|(known, _)| *known == version)?,
        None => versions.len().checked_sub(1)?,
    };
    let (before, newest_ns) = versions.get(current.checked_sub(1)?)?;
    let length_ns = span.until_ns - span.from_ns;
    // If it still runs, both are compared at the same time.
    let until_ns =
        if *newest_ns >= span.until_ns.min(now_ns) - GAP_NS { span.until_ns } else { *newest_ns };
    let until_ns = until_ns.min(span.until_ns);
    let range = Span { from_ns: until_ns - length_ns, until_ns };
    let mut both = BASE.write(&FIELDS.write(&params.with("label", ""), span), range);
    for other in others() {
        both = both.and("label", other).and(BASE_LABEL, other);
    }
    let both = both.and("label", format!("{label}={}", versions[current].0));
    let both = both.and(BASE_LABEL, format!("{label}={before}"));
    Some((format!("version {}", shortened(before, 40)), both))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_NS: i64 = 3600 * SECOND_NS;
    const NOW_NS: i64 = 1000 * HOUR_NS;

    fn series(id: i64, version: &str, newest_ns: i64) -> Series {
        Series {
            id,
            service: "web".to_owned(),
            name: "process_cpu".to_owned(),
            labels: [("version".to_owned(), version.to_owned())].into(),
            types: Vec::new(),
            shown: 0,
            newest_ns,
        }
    }

    #[test]
    fn comparisons_with_what_was_before() {
        let span = Span { from_ns: NOW_NS - HOUR_NS / 2, until_ns: NOW_NS };
        let check = |all: &[Series], query: &[(&str, &str)], expected: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let params = Params::of(query.iter().map(owned).collect());
            let found = presets(all, span, NOW_NS, &params);
            let found = found.iter().map(|(words, params)| {
                let of = |name| params.all(name).collect::<Vec<_>>().join(" ");
                let from = of("base_from").get(8..16).unwrap_or_default().to_owned();
                (words.clone(), format!("{from} {}: {}", of("base_label"), of("label")))
            });
            let expected = expected.iter().map(owned);
            assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        };
        let usual = [
            ("the previous time range", "11T15:00 : "),
            ("an hour before", "11T14:30 : "),
            ("a day before", "10T15:30 : "),
        ];
        check(&[], &[], &usual);
        check(&[series(1, "a", NOW_NS)], &[], &usual);
        let deploy = |before| [&usual[..], &[before]].concat();
        // The version before has ended, or still runs elsewhere.
        let ended = [series(1, "a", NOW_NS - 2 * HOUR_NS), series(2, "b", NOW_NS)];
        check(&ended, &[], &deploy(("version a", "11T13:30 version=a: version=b")));
        let both = [series(2, "b", NOW_NS), series(1, "a", NOW_NS - SECOND_NS)];
        check(&both, &[], &deploy(("version a", "11T15:30 version=a: version=b")));
        let all = [series(1, "a", 0), series(2, "b", NOW_NS), series(3, "c", NOW_NS)];
        let query = [("label", "host=x"), ("label", "version=c")];
        let labels = "host=x version=c: host=x version=c";
        let expected = [
            ("the previous time range", format!("11T15:00 {labels}")),
            ("an hour before", format!("11T14:30 {labels}")),
            ("a day before", format!("10T15:30 {labels}")),
            ("version b", "11T15:30 host=x version=b: host=x version=c".to_owned()),
        ];
        let expected: Vec<(&str, &str)> =
            expected.iter().map(|(words, range)| (*words, range.as_str())).collect();
        check(&all, &query, &expected);
    }
}
