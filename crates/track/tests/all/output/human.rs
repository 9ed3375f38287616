//! The table, and the summary line.

use super::*;

const PLAIN: Style = Style { width: 110, has_colours: false, is_verbose: false };

#[track_caller]
fn check(sample: &Sample, style: Style, expected: &str) {
    assert_eq!(human(&sample.page(), style), expected.trim_start_matches('\n'));
}

#[test]
fn what_matters_stands_first() {
    check(
        &mixed(),
        PLAIN,
        "
Simple Profiler: feature/x at 0123456789 on ci-runner, from main at fedcba9876

benchmark    measure               value   spread       baseline   change   95 % interval  verdict
parse/large  instructions            153                     120  +27.5 %                  worse
parse/large  latency            1.200 µs  ± 0.050       1.000 µs  +20.0 %  +18.0 to +22.0  worse
write        build-time          20.00 s                 10.00 s                           worse, silenced
write        throughput    3.000 M ops/s           2.000 M ops/s  +50.0 %  +40.0 to +60.0  better
parse/small  latency            1.010 µs  ± 0.010       1.000 µs   +1.0 %    −0.5 to +2.5  no change ≥ 1.3 %
parse/new    latency            2.500 µs                                                   too little history
write        my-score              88.00                                                   not judged

failed  read: exit code 1
notice  the environment is not that of the last report: kernel 6.12 → 6.18
alert   parse/large instructions: 153 is above 126; an exact measure that was 120 differs by 33
alert   parse/large latency: 1.200 ± 0.050 µs is above 1.050 µs; +20.0 % (+18.0 to +22.0); 7.5 spreads from
        the usual level, where 4.0 are needed (p = 1e−4)
alert   write build-time: 20.00 s is above the upper limit of 10.50 s; silenced (known)
note    version abc stands in for def

2 of 7 metrics are worse: parse/large instructions +27.5 %, parse/large latency +20.0 %; 1 benchmark failed
",
    );
}

#[test]
fn every_width_is_kept() {
    use unicode_width::UnicodeWidthStr as _;
    let mut sample = mixed();
    let name = "namespace::module::<impl Trait for Type<表>>::function/1000000";
    let wide = Case {
        measure: custom("表 a measure with quite a name"),
        metric: Metric::new(12.0).within(1.0, 90_000.0),
        reason: new_since("averyveryveryveryveryveryverylongwordwithoutanyblankatall and others"),
        status: Some(AlertStatus::Active),
        ..Case::new(name, "x", 0.0, Outcome::Changed)
    };
    sample.add(0, wide);
    for width in 20..200 {
        let style = Style { width, ..PLAIN };
        let text = human(&sample.page(), style);
        for line in text.lines() {
            assert!(line.width() <= width, "{line:?} is wider than {width}");
        }
        assert!(text.contains("worse"));
    }
}

#[test]
fn many_unchanged_become_a_count() {
    let lines = |sample: &Sample, is_verbose| {
        let text = human(&sample.page(), Style { is_verbose, ..PLAIN });
        let rows = text.lines().filter(|line| line.starts_with("case_")).count();
        let count = text.lines().find(|line| line.starts_with("and ")).map(str::to_owned);
        (rows, count)
    };
    assert_eq!(lines(&quiet(20), false), (20, None));
    let more = Some("and 30 more: 30 no change; --verbose shows them".to_owned());
    assert_eq!(lines(&quiet(50), false), (20, more));
    assert_eq!(lines(&quiet(50), true), (50, None));
}

#[test]
fn iterations_only_if_there_are_several() {
    let mut sample = quiet(1);
    assert!(!human(&sample.page(), PLAIN).contains("iteration"));
    sample.add(1, Case::new("case_0", "latency", 1000.0, Outcome::NoChange));
    let text = human(&sample.page(), PLAIN);
    assert!(text.contains("iteration"), "{text}");
}

#[test]
fn colours_only_where_wanted() {
    let text = human(&mixed().page(), Style { has_colours: true, ..PLAIN });
    assert!(text.contains("\u{1b}[31"), "{text}");
    assert!(!human(&mixed().page(), PLAIN).contains('\u{1b}'));
}

#[test]
fn the_last_line() {
    let check = |cases: Vec<Case>, expected: &str| {
        assert_eq!(verdict(&Sample::of(cases).page()), expected);
    };
    let case = |outcome, status| Case {
        status,
        change: Some([0.042, 0.04, 0.045]),
        smallest_visible: Some(0.013),
        ..Case::new("a", "latency", 1.0, outcome)
    };
    let other = |name, outcome, smallest_visible| Case {
        smallest_visible,
        ..Case::new(name, "latency", 1.0, outcome)
    };
    let active = Some(AlertStatus::Active);
    check(vec![], "no benchmark was found");
    check(vec![case(Outcome::Worse, active)], "1 of 1 metric is worse: a latency +4.2 %");
    check(
        vec![
            case(Outcome::Worse, active),
            Case { benchmark: "b", ..case(Outcome::Worse, active) },
            Case { benchmark: "c", ..case(Outcome::Changed, active) },
            Case { benchmark: "d", ..case(Outcome::Better, active) },
        ],
        "2 of 4 metrics are worse and 1 changed and 1 is better: a latency +4.2 %, b latency +4.2 %, \
         d latency +4.2 % and 1 more",
    );
    check(
        vec![case(Outcome::NoChange, None), other("b", Outcome::NoChange, Some(0.013))],
        "no alert in 2 metrics; a change of 1.3 % would have been seen",
    );
    check(
        vec![
            case(Outcome::NoChange, None),
            other("b", Outcome::NoChange, Some(0.4)),
            other("c", Outcome::NoChange, Some(0.0)),
        ],
        "no alert in 3 metrics; a change of 40 % would have been seen",
    );
    let alone = |outcome, visible, expected: &str| {
        check(vec![other("a", outcome, visible)], &format!("no alert in 1 metric; {expected}"));
    };
    alone(Outcome::NoChange, Some(0.0), "any change would have been seen");
    alone(Outcome::TooLittleHistory, None, "there is too little history yet");
    let nobody =
        "none of them was judged: no threshold with a boundary names them, or they are ignored";
    alone(Outcome::NotJudged, None, nobody);
    check(
        vec![
            case(Outcome::Worse, Some(AlertStatus::Silenced)),
            other("b", Outcome::MovedTogether, None),
        ],
        "no active alert in 2 metrics, 1 is dismissed or silenced, 1 moved together; a change of 1.3 % \
         would have been seen",
    );
}

#[test]
fn notices_and_doubts_are_told() {
    let (spreads, limit) = (7.5, 4.0);
    let spike = Reason::from(ReasonKind::PossibleSpike {
        spreads,
        limit,
        spikes: 1,
        points: 9,
        repeats: 0,
    });
    let mut sample = Sample::of(vec![
        Case { reason: spike.clone(), ..Case::new("a", "latency", 1.0, Outcome::MaybeWorse) },
        Case { reason: noisy(), ..Case::new("b", "latency", 1.0, Outcome::TooNoisy) },
        Case::new("c", "latency", 1.0, Outcome::NoChange),
    ]);
    let cause = "9 of 10 benchmarks moved by about +5.0 %".to_owned();
    let text = NoticeText { cause, ..NoticeText::default() };
    sample.notices.push(Notice { kind: NoticeKind::AlertIsUsual { metrics: 9 }, text });
    let text = human(&sample.page(), PLAIN);
    assert!(text.contains("notice  9 of 10 benchmarks moved"), "{text}");
    assert!(text.contains("worse, spike?"), "{text}");
    assert!(text.contains("too noisy"), "{text}");
    assert!(
        text.contains("spike?  a latency: 1.000 ns; 7.5 spreads from the usual level"),
        "{text}"
    );
    assert!(
        text.contains("noisy   b latency: history too noisy to judge: 3 of 9 points are spikes"),
        "{text}"
    );
    assert!(text.contains("1 may be a spike, 1 too noisy to judge"), "{text}");
    assert!(!text.contains("alert   "), "{text}");
    let (comment, json) = (markdown(&sample.page(), None), json(&sample.page()).to_string());
    for reason in ["so this may be one", "3 of 9 points are spikes"] {
        assert!(comment.replace('\u{a0}', " ").contains(reason), "{comment}");
        assert!(json.contains(reason), "{json}");
    }
    assert!(json.contains("maybe-worse") && json.contains("too-noisy"), "{json}");
}

/// Too short a history of many benchmarks is reported once, and not on 140 lines.
#[test]
fn many_noisy_rows_are_few_lines() {
    let noisy = |at: usize| {
        let case = Case::new(format!("n{at}").leak(), "latency", 1.0, Outcome::TooNoisy);
        Case { reason: noisy(), ..case }
    };
    let sample = Sample::of((0..69).map(noisy).collect());
    let text = human(&sample.page(), PLAIN);
    assert_eq!(text.matches("points are spikes").count(), 3, "{text}");
    assert!(text.contains("noisy   66 more metrics could not be judged either"), "{text}");
    assert!(text.contains("and 49 more: 49 too noisy"), "{text}");
    assert!(text.lines().count() < 35, "{text}");
    assert!(markdown(&sample.page(), None).contains("66 more metrics could not be judged"));
}
