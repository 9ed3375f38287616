//! Assigns slugs to measures: names that would share one get different ones.

use super::{Measure, Slug};

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

    /// The slugs of names, or of known slugs with other names, in sequence.
    fn check(measures: &[(&str, &str)], expected: &[&str]) {
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
        check(&both, &["read-bytes", "+", "read-bytes"]);
        check(&[("", "p99.9"), ("", "p99-9")], &["p99-9", "+"]);
        // A title, and its slug.
        check(&[("", "My Score"), ("", "my-score")], &["my-score", "my-score"]);
        // As in an old store.
        check(&[("x", "延迟"), ("x", "内存"), ("", "延迟"), ("", "内存")], &["x", "+", "x", "+"]);
        check(&[("", "延迟"), ("", "内存")], &["+", "+"]);
    }

    #[test]
    fn a_slug_that_a_tool_chose_stays() {
        check(&[("", "latency"), ("", "Latency")], &["latency", "latency"]);
        check(&[("d1-misses", "D1 read misses"), ("", "d1-misses")], &["d1-misses", "+"]);
    }
}
