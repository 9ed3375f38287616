//! Comments: their content, escaping, and maximum length.

use super::*;

const MARKER: &str = r#"<div id="wingbeat/Simple Profiler/feature/x/ci-runner/rust_divan"></div>"#;

type Write = fn(&Page<'_>, Option<&str>) -> String;

const FORMS: [Write; 2] = [markdown, html];

#[test]
fn what_matters_is_in_it() {
    for form in FORMS {
        let text = form(&mixed().page(), None);
        for words in [
            "2 of 7 metrics are worse",
            "<code>parse/large</code>",
            "+20.0\u{a0}%",
            "above\u{a0}1.050\u{a0}µs",
            "silenced: known",
            "exit code 1",
            "kernel 6.12 → 6.18",
            "version abc stands in for def",
            "<details><summary>All 7 metrics</summary>",
            "0123456789</code>",
            "Linux 6.18.44",
        ] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(text.trim_end().ends_with(MARKER), "{text}");
    }
}

#[test]
fn markdown_as_a_whole() {
    let mut sample = Sample::of(vec![Case {
        baseline: Some(1000.0),
        change: Some([0.2, 0.18, 0.22]),
        reason: far(7.5),
        status: Some(AlertStatus::Active),
        ..Case::new("a|b", "latency", 1200.0, Outcome::Worse)
    }]);
    sample.report.start_point = None;
    let expected = "\
### wingbeat: <code>Simple Profiler</code>

<strong>1 of 1 metric is worse: a&#124;b latency +20.0·%</strong>

| branch | testbed |
| --- | --- |
| <code>feature/x</code> at <code>0123456789</code> | <code>ci-runner</code> |

| alert | measure | value | baseline | change | limit |
| --- | --- | ---: | ---: | ---: | --- |
| <code>a&#124;b</code> | <code>latency</code> | 1.200·µs | 1.000·µs | <strong>+20.0·%</strong> (+18.0·to·+22.0) | above·1.050·µs |

- <code>a&#124;b</code> <code>latency</code>: 7.5 spreads from the usual level, where 4.0 are needed (p·=·1e−4)

<details><summary>The metric</summary>

| benchmark | measure | value | baseline | change | verdict |
| --- | --- | ---: | ---: | ---: | --- |
| <code>a&#124;b</code> | <code>latency</code> | 1.200·µs | 1.000·µs | +20.0·% (+18.0·to·+22.0) | <strong>worse</strong> |

</details>

<details><summary>Environment</summary>

| environment |  |
| --- | --- |
| <code>kernel</code> | <code>Linux 6.18.44</code> |

</details>

";
    // `·` represents a non-breaking space.
    let expected = expected.replace('·', "\u{a0}");
    let expected = expected.replace("<code>kernel</code>", "kernel") + MARKER + "\n";
    assert_eq!(markdown(&sample.page(), None), expected);
}

#[test]
fn text_is_escaped() {
    let evil: &'static str = "</code></td><script>alert(1)</script> @all **x** `y` | z";
    let mut sample = Sample::of(vec![Case {
        reason: new_since(evil),
        status: Some(AlertStatus::Active),
        ..Case::new(evil, "latency", 1.0, Outcome::Changed)
    }]);
    sample.remarks.push(evil.to_owned());
    sample.report.project = ProjectName::new("\"><img src=x>").expect("a name");
    for form in FORMS {
        let text = form(&sample.page(), None);
        for words in ["<script", "<img"] {
            assert!(!text.contains(words), "{text}");
        }
    }
    let text = markdown(&sample.page(), None);
    for words in ["@all", "**x**", "`y`", " | z"] {
        assert!(!text.contains(words), "{words:?} is in {text}");
    }
}

#[test]
fn markers() {
    let mut sample = quiet(1);
    let mut check = |project: &str, branch: &str, id, expected: &str| {
        sample.report.project = ProjectName::new(project).expect("a name");
        sample.report.branch = BranchName::new(branch).expect("a name");
        assert_eq!(marker(&sample.report, id), format!("<div id=\"{expected}\"></div>"));
    };
    check("p", "main", None, "wingbeat/p/main/ci-runner/rust_divan");
    check("p/q", "a/b", None, "wingbeat/p%2Fq/a/b/ci-runner/rust_divan");
    check("a\"b", "main", None, "wingbeat/a&quot;b/main/ci-runner/rust_divan");
    check("p", "main", Some("nightly"), "wingbeat/p/id/nightly");
    check("p", "main", Some("a/b"), "wingbeat/p/id/a%2Fb");
}

#[test]
fn long_reports_are_shortened() {
    let mut loud = quiet(0);
    for number in 0..3000 {
        let name: &'static str = format!("module::benchmark_number_{number}").leak();
        let case = Case::new(name, "latency", 1.0, Outcome::Worse);
        loud.add(0, Case { status: Some(AlertStatus::Active), reason: far(7.5), ..case });
    }
    for form in FORMS {
        for sample in [&loud, &quiet(3000)] {
            let text = form(&sample.page(), None);
            assert!(text.len() <= 65_536, "{} bytes", text.len());
            assert!(text.len() > 10_000, "{} bytes", text.len());
            assert!(text.trim_end().ends_with("</div>"));
            assert!(text.contains("left out, since a comment is limited in length"));
        }
        assert!(form(&loud.page(), None).contains("3,000 of 3,000 metrics are worse"));
    }
}

#[test]
fn no_threshold_is_a_warning() {
    let check = |test, expected| {
        let sample =
            Sample::of(vec![Case { test, ..Case::new("a", "latency", 1.0, Outcome::NotJudged) }]);
        let text = markdown(&sample.page(), None);
        assert_eq!(text.contains("No threshold judges"), expected, "{text}");
    };
    check(None, true);
    check(Some(Test::Auto), false);
}
