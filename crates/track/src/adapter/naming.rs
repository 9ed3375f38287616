//! Converts tools' benchmark names to valid names.

use std::{borrow::Cow, collections::hash_map::Entry, hash::Hash};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::model::{Direction, Measure, MeasureKind};

/// A benchmark name on one line: commands may have several.
pub(crate) fn in_one_line(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let parts: Vec<_> = text.split(char::is_control).filter(|part| !part.is_empty()).collect();
    Cow::Owned(parts.join(" "))
}

/// A measure specific to a benchmark or tool. Its slug never collides with a known one.
pub(super) fn counter(label: &str, units: &str, direction: Direction) -> Measure {
    let label = in_one_line(label);
    let units = match units.trim() {
        "" => format!("{label} (units)"),
        units => units.to_owned(),
    };
    let measure = Measure::custom(label.to_string(), units.clone(), direction, MeasureKind::Noisy);
    let by_slug = Measure::from_slug(measure.slug.clone());
    // An unknown slug is its own name.
    if by_slug.name == by_slug.slug.as_str() {
        return measure;
    }
    Measure::custom(format!("{label} counter"), units, direction, MeasureKind::Noisy)
}

/// The measure of a harness that counts something other than time. Lower is better for cycles. The rest is unknown.
pub(super) fn measurement(units: &str) -> Measure {
    let direction = match units {
        "cycles" | "instructions" => Direction::LowerIsBetter,
        _ => Direction::Unknown,
    };
    Measure::custom(units.to_owned(), units.to_owned(), direction, MeasureKind::Noisy)
}

/// Keys with several qualifiers, which are several benchmarks and need the qualifier in their names.
pub(super) fn ambiguous<K: Hash + Eq + Clone, Q: PartialEq>(
    pairs: impl Iterator<Item = (K, Q)>,
) -> FxHashSet<K> {
    let mut first = FxHashMap::default();
    let mut several = FxHashSet::default();
    for (key, qualifier) in pairs {
        match first.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(qualifier);
            }
            Entry::Occupied(known) if *known.get() == qualifier => {}
            Entry::Occupied(known) => {
                several.insert(known.key().clone());
            }
        }
    }
    several
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_one_line() {
        let check =
            |text: &str, expected: &str| assert_eq!(in_one_line(text), expected, "{text:?}");
        check(" a b ", "a b");
        check("for i in 1 2\r\ndo\n\ttrue", "for i in 1 2 do true");
        check("größe \"q\"", "größe \"q\"");
        check("\n", "");
    }

    #[test]
    fn counters_keep_out_of_the_way() {
        let check = |label, units, slug: &str, expected: &str| {
            let measure = counter(label, units, Direction::Unknown);
            assert_eq!((measure.slug.as_str(), &*measure.units), (slug, expected), "{label}");
        };
        check("Foo", "", "foo", "Foo (units)");
        check("p99-ns", "ns", "p99-ns", "ns");
        check("latency", "", "latency-counter", "latency (units)");
        check("CPU Time", "s", "cpu-time-counter", "s");
    }

    #[test]
    fn what_one_name_does_not_tell_apart() {
        let found = ambiguous([("a", 1), ("b", 1), ("a", 1), ("b", 2)].into_iter());
        assert_eq!(found, FxHashSet::from_iter(["b"]));
    }
}
