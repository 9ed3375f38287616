//! Compares a run with the previous one in docs/kernels.md, and with the kernel's expected features.

use super::{console::Run, document, record::Record, suites::smoke};

/// Allowed growth of verified instructions.
const GROWTH_MAX: f64 = 1.10;

/// Regressions against the file, one sentence each.
pub(super) fn regressions(record: &Record, text: &str) -> Vec<String> {
    let table = document::verified(text);
    let recorded = |program: &str| {
        table.cell(program, &record.series).and_then(|cell| cell.parse::<u64>().ok())
    };
    let mut sentences = record.disagreements.clone();
    for (program, count) in &record.verified {
        let Some(count) = count else {
            sentences.push(format!("the verifier of this kernel rejects {program}"));
            continue;
        };
        if let Some(before) = recorded(program)
            && *count as f64 > before as f64 * GROWTH_MAX
        {
            sentences.push(format!(
                "{program} takes the verifier {count} instructions, {before} are written down \
                 in docs/kernels.md; if that is meant, run `cargo xtask vm --update`"
            ));
        }
    }
    for program in table.row_names() {
        let is_gone = record.verified.iter().all(|(name, _)| name != program);
        if is_gone && recorded(program).is_some() {
            sentences.push(format!(
                "{program} was not loaded; the output says why; if it is gone, run `cargo \
                 xtask vm --update`"
            ));
        }
    }
    sentences
}

/// Programs with fewer passed tests than on the smoke list: a renamed test would go unnoticed.
pub(super) fn missing_of_smoke(runs: &[Run]) -> Vec<String> {
    let is_short = |run: &&Run| run.passed < smoke(&run.name).len() as u64;
    let sentence = |run: &Run| {
        let (wanted, passed) = (smoke(&run.name).len(), run.passed);
        format!("the smoke list names {wanted} tests of {}, and {passed} passed", run.name)
    };
    runs.iter().filter(is_short).map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vm::record::tests::{record, record_of};

    /// The file after a kernel with this many instructions.
    const BEFORE: &str = "<!-- vm verified instructions: begin -->\n\n| program | 6.12 |\n\
        | --- | --- |\n| profile: sample | 100 |\n| profile: gone | 5 |\n\n\
        <!-- vm verified instructions: end -->\n";

    #[test]
    fn growth_beyond_a_tenth_is_told() {
        let check = |programs: &[(&str, u64)], expected: &[&str]| {
            let found = regressions(&record(programs), BEFORE);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(a, b)| a.starts_with(b)), "{found:?}");
        };
        check(&[("sample", 110), ("gone", 1)], &[]);
        check(&[("sample", 111), ("gone", 5)], &["profile: sample takes the verifier 111"]);
        check(&[("sample", 90), ("new", 900)], &["profile: gone was not loaded"]);
        assert_eq!(regressions(&record(&[("sample", 900)]), "no table"), [""; 0]);
    }

    #[test]
    fn rejected_programs_and_wrong_probes_are_told() {
        let check = |programs: &[String], fentry, expected| {
            assert_eq!(regressions(&record_of(programs, fentry), "no table"), [expected]);
        };
        let rejected = ["x,sample,failure,12".to_owned()];
        check(&rejected, "missing", "the verifier of this kernel rejects profile: sample");
        let denied = "fentry: the probe says missing, and this kernel should say works";
        check(&[], "works", denied);
    }

    #[test]
    fn a_test_of_the_smoke_list_has_to_be_there() {
        let run = |name: &str, passed| Run { name: name.to_owned(), passed, ..Run::default() };
        let check = |passed, expected: usize| {
            assert_eq!(missing_of_smoke(&[run("wingbeat/profile", passed)]).len(), expected);
        };
        check(2, 0);
        check(1, 1);
        assert_eq!(missing_of_smoke(&[run("wingbeat/run", 0)]), [""; 0]);
    }
}
