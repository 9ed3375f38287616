//! Iai: a name, and below it five counts, each with its change since the last run.

use crate::adapter::prelude::*;

/// The counts. Their names are those of the measures.
const COUNTS: [&str; 5] =
    ["Instructions", "L1 Accesses", "L2 Accesses", "RAM Accesses", "Estimated Cycles"];

pub(super) fn parse(text: &str, _: Option<Average>) -> Parsed {
    let mut results = Results::default();
    let measures = COUNTS.map(Measure::named);
    let mut above = "";
    // The benchmark, and the number of its counts read so far.
    let mut current: Option<(&str, usize)> = None;
    let mut first: Option<Metric> = None;
    for (at, content) in lines(Adapter::RustIai, text) {
        let count = content.strip_prefix("  ").and_then(|content| content.split_once(':'));
        match count.and_then(|(name, value)| Some((name, metric(value)?))) {
            // Gungraun's results begin the same: the second line distinguishes them.
            Some(("Instructions", metric)) if !above.is_empty() => {
                current = Some((above, 1));
                first = Some(metric);
            }
            Some((name, metric)) => {
                if let Some((benchmark, read)) = &mut current
                    && COUNTS.get(*read) == Some(&name)
                {
                    let benchmark = at.benchmark(&mut results, benchmark)?;
                    if let Some(first) = first.take() {
                        benchmark.expect_metrics(COUNTS.len());
                        benchmark.add(&measures[0], first)?;
                    }
                    benchmark.add(&measures[*read], metric)?;
                    *read += 1;
                }
            }
            None => current = None,
        }
        above = if content.starts_with(' ') { "" } else { content.trim() };
    }
    Ok(results)
}

/// An integer, alone or before a change in parentheses.
fn metric(value: &str) -> Option<Metric> {
    let value = value.trim();
    let digits = value.split_once(" (").map_or(value, |(digits, _)| digits);
    let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b',');
    is_whole.then(|| number(digits)).flatten().map(Metric::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_result() {
        for text in [
            "a::b c:1\n  Instructions:   78|N/A   (*****)\n  L1 Hits:   79|N/A   (*****)\n",
            "a\n  Instructions:  78 (No change)\n  L1 Hits:  79 (No change)\n",
            "a\n  L1 Accesses:  78\n",
            "\n  Instructions:  78\n  L1 Accesses:  78\n",
        ] {
            assert!(parse(text, None).expect(text).is_empty(), "{text}");
        }
    }
}
