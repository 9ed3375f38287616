//! What `wingbeat run` said about a report: by how much the benchmark changed, and who is guilty.

use regex_lite::Regex;
use serde_json::Value;

/// What a report says of its only benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) uuid: String,
    /// In nanoseconds, or instructions.
    pub(super) value: f64,
    /// What the value is compared with, if there is enough history.
    pub(super) baseline: Option<f64>,
    pub(super) has_alert: bool,
    /// The first sentence about the cause, whether it names a function or not.
    pub(super) sentence: Option<String>,
}

/// Whom a sentence names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) function: String,
    /// File and line.
    pub(super) place: Option<String>,
    /// `473.2 ms of 475.8 ms`.
    pub(super) amount: String,
}

impl Said {
    /// `None` if the report has no result of the measure, or is of another form.
    pub(super) fn of(report: &Value, measure: &str) -> Option<Self> {
        let mut measures = report["results"][0][0]["measures"].as_array()?.iter();
        let found = measures.find(|it| it["measure"]["slug"] == measure)?;
        let mut explained = report["wingbeat"]["explained"].as_array()?.iter();
        let explained = explained.find(|it| it["measure"] == measure);
        let sentence = explained.and_then(|it| it["sentences"][0].as_str());
        Some(Self {
            uuid: report["uuid"].as_str()?.to_owned(),
            value: found["metric"]["value"].as_f64()?,
            baseline: found["boundary"]["baseline"].as_f64(),
            has_alert: report["counts"]["alerts"]["active"].as_u64()? > 0,
            sentence: sentence.map(str::to_owned),
        })
    }
}

/// Takes a sentence apart; `None` if it names nobody.
pub(super) fn named(sentence: &str) -> Option<Named> {
    let pattern = r"^(.+?)(?: \(([^()]+:\d+)\))?(?:, (?:called by|inlined into) .+,)? (?:adds|saves) (.+? of [^,;]+)";
    let found = Regex::new(pattern).ok()?.captures(sentence)?;
    let part = |at: usize| found.get(at).map(|it| it.as_str().to_owned());
    Some(Named { function: part(1)?, place: part(2), amount: part(3)? })
}

/// A name as `module::Type::function`: without generic arguments, traits and references.
pub(super) fn plain(name: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_u32;
    // `module::<impl Trait for Type>::function`, in another module than the type's.
    let impls = name.split_once("<impl ").and_then(|(_, rest)| split_at_end(rest));
    if let Some((owner, function)) = impls {
        let owner = owner.rsplit_once(" for ").map_or(owner, |(_, owner)| owner);
        return format!("{}{}", self::plain(owner), self::plain(function));
    }
    let mut rest = name;
    // `<Type as Trait>::function`: the type counts.
    if let Some((owner, function)) = name.strip_prefix('<').and_then(split_at_end) {
        let owner = owner.split_once(" as ").map_or(owner, |(owner, _)| owner);
        plain = self::plain(owner.trim_start_matches(['&', '*']).trim_start_matches("mut "));
        rest = function;
    }
    for character in rest.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(character),
            _ => {}
        }
    }
    plain.trim_end_matches("::").replace("::::", "::")
}

/// What stands before the bracket that ends it, and behind it.
fn split_at_end(text: &str) -> Option<(&str, &str)> {
    let mut depth = 1_u32;
    for (at, character) in text.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&text[..at], &text[at + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sentences_are_taken_apart() {
        let check = |sentence: &str, expected: Option<[&str; 3]>| {
            let found = named(sentence).map(|it| (it.function, it.place, it.amount));
            let expected = expected.map(|[function, place, amount]| {
                let place = Some(place.to_owned()).filter(|place| !place.is_empty());
                (function.to_owned(), place, amount.to_owned())
            });
            assert_eq!(found, expected, "{sentence}");
        };
        check(
            "a::_oops (src/oops.rs:21), called by a::run, adds 473.2 ms of 475.8 ms, most of it in [sleeping]",
            Some(["a::_oops", "src/oops.rs:21", "473.2 ms of 475.8 ms"]),
        );
        check(
            "<a::B<u8> as c::D>::e, inlined into a::f on one side, adds 1 ns of 2 ns",
            Some(["<a::B<u8> as c::D>::e", "", "1 ns of 2 ns"]),
        );
        check(
            "xdp_v4 (src/lib.rs:96) adds 98 of 98 instructions; line 96: 0 before, 85 now",
            Some(["xdp_v4", "src/lib.rs:96", "98 of 98 instructions"]),
        );
        check("a::f saves 12.4 µs of 13 µs", Some(["a::f", "", "12.4 µs of 13 µs"]));
        check(
            "no function explains the change of 10 ns: 100 and 100 samples show changes of 19 ns (16.9 %) or more",
            None,
        );
    }

    #[test]
    fn names_are_made_plain() {
        let check = |name: &str, expected: &str| assert_eq!(plain(name), expected);
        check("a::f", "a::f");
        check("a::f::<u8, Vec<u8>>", "a::f");
        check("<a::B>::f", "a::B::f");
        check("<a::B<'_> as core::cmp::Ord>::cmp", "a::B::cmp");
        check("<&mut a::B as c::D<u8>>::f::<u8>", "a::B::f");
        check("a::m::<impl core::cmp::Ord for a::B<u8>>::cmp", "a::B::cmp");
        check("a::m::<impl a::B>::f::<u8>", "a::B::f");
    }

    #[test]
    fn reports_are_understood() {
        let report = |explained: Value| {
            json!({
                "uuid": "0d1e",
                "results": [[{"measures": [{"measure": {"slug": "jited-size"}}, {
                    "measure": {"slug": "latency"}, "metric": {"value": 150.0}, "boundary": {"baseline": 100.0},
                }]}]],
                "counts": {"alerts": {"total": 1, "active": 1}},
                "wingbeat": {"explained": explained},
            })
        };
        let said = Said::of(
            &report(json!([{"measure": "latency", "sentences": ["a adds 50 ns of 50 ns"]}])),
            "latency",
        );
        let said = said.expect("a report");
        assert_eq!((said.value, said.baseline, said.has_alert), (150.0, Some(100.0), true));
        assert_eq!(
            (&*said.uuid, said.sentence.as_deref()),
            ("0d1e", Some("a adds 50 ns of 50 ns"))
        );
        assert_eq!(Said::of(&report(json!([])), "latency").expect("a report").sentence, None);
        assert_eq!(Said::of(&json!({}), "latency"), None);
    }
}
