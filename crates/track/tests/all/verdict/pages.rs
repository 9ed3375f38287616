//! Checks that the pages about judging quote the constants in the code correctly.

use std::{fs, path::Path};

use wingbeat_stats::{changes, drift, paired};
use wingbeat_track::{compare::judge, verdict::Settings};

const RULE: &str = "docs/how-numbers-are-judged.md";
const APPENDIX: &str = "docs/judging-appendix.md";
const STATS: &str = "crates/stats/src";
const VERDICT: &str = "crates/track/src/verdict";

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The numbers in the value of a constant, which may be private.
fn numbers(folder: &str, file: &str, name: &str) -> Vec<f64> {
    let text = read(&format!("{folder}/{file}"));
    let of = |text: &str| {
        let (_, behind) = text.split_once(&format!("const {name}: "))?;
        Some(behind.split_once(';').filter(|_| !behind.starts_with('['))?.0.to_owned())
    };
    // The length of an array ends with a semicolon as well.
    let of_array = |text: &str| {
        let (_, behind) = text.split_once(&format!("const {name}: "))?;
        Some(behind.split_once("] =")?.1.split_once(';')?.0.to_owned())
    };
    let value = of(&text).or_else(|| of_array(&text));
    let value = value.unwrap_or_else(|| panic!("{file} has no constant {name}"));
    let value = value.rsplit_once("= ").map_or(&*value, |(_, value)| value).replace("..=", " ");
    value
        .replace("f64::INFINITY", "inf")
        .split(|c: char| !c.is_ascii_alphanumeric() && !"._".contains(c))
        .filter_map(|word| word.replace('_', "").parse().ok())
        .collect()
}

fn number(folder: &str, file: &str, name: &str) -> f64 {
    let all = numbers(folder, file, name);
    assert_eq!(all.len(), 1, "{name} is {all:?}");
    all[0]
}

/// A small number as a word.
fn word(number: f64) -> &'static str {
    const WORDS: [&str; 13] = [
        "none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
        "eleven", "twelve",
    ];
    WORDS.get(number as usize).filter(|_| number.fract() == 0.0).copied().unwrap_or("no word")
}

fn percent(share: f64) -> String {
    format!("{} %", (share * 1e5).round() / 1e3)
}

#[track_caller]
fn check(page: &str, sentence: &str) {
    let whole = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(whole(&read(page)).contains(&whole(sentence)), "{page} does not say: {sentence}");
}

#[test]
fn settings() {
    let Settings { false_alarm_chance, change_min, .. } = Settings::default();
    let reports = (1.0 / false_alarm_chance).round();
    check(RULE, &format!("less than once in {reports} reports"));
    check(RULE, &format!("1 report in {reports}, however many benchmarks"));
    check(APPENDIX, &format!("One report in {reports} may contain a false \"worse\""));
    check(APPENDIX, &format!("1 − (1 − 1/{reports})^(1/B)"));
    check(RULE, &format!("**The least change** that counts is {},", percent(change_min)));
    check(APPENDIX, &format!("**The least change** that counts is {} ", percent(change_min)));
    let compare = judge::Settings::default();
    let confidence = 1.0 - compare.false_verdicts;
    check(RULE, &format!("the same, at {} for all benchmarks together", percent(confidence)));
    check(
        APPENDIX,
        &format!("a probability of {} of a false verdict", percent(compare.false_verdicts)),
    );
    check(APPENDIX, &format!("at 1 − {}/m", compare.false_verdicts));
    check(
        APPENDIX,
        &format!(
            "worse by more than `--threshold` ({}), or `--threshold-exact` ({})",
            percent(compare.threshold),
            percent(compare.threshold_exact)
        ),
    );
    let pairs = paired::PAIRS_MIN as f64;
    check(RULE, &format!("in random order; {pairs} or more"));
    check(RULE, &format!("ABBA or BAAB; {pairs} or more"));
    check(APPENDIX, &format!("Fewer than {} pairs give no verdict", word(pairs)));
    check(RULE, &format!("{} of ten such measurements", word(10.0 * paired::POWER)));
    let confidence = number("crates/bpf-bench/src/analyse", "compare.rs", "CONFIDENCE");
    check(RULE, &format!("a {} interval of the mean ratio", percent(confidence)));
    let resampled = number(STATS, "paired.rs", "BOOTSTRAP_CONFIDENCE_MAX");
    check(APPENDIX, &format!("Beyond {}, Student's part decides alone", percent(resampled)));
}

#[test]
fn short_histories() {
    let reports = word(number(VERDICT, "history.rs", "REPORTS_MIN"));
    check(RULE, &format!("**Fewer than {reports} reports** show neither noise nor spikes"));
    check(APPENDIX, &format!("So with fewer than {reports} reports `auto` decides nothing"));
    check(
        "docs/run.md",
        &format!("With fewer than {reports} reports of history, `auto` raises no alert"),
    );
    let apart = percent(number(VERDICT, "few_reports.rs", "RUN_TO_RUN"));
    check(RULE, &format!("What differs by {apart} and by its samples"));
    check(APPENDIX, &format!("differs from the median of history by {apart}"));
    let samples = number(VERDICT, "samples.rs", "SAMPLES_MIN");
    let chance = number(VERDICT, "samples.rs", "DIFFER_CHANCE");
    check(
        APPENDIX,
        &format!("(Mann–Whitney, {} or more on both sides, p ≤ {chance})", word(samples)),
    );
    check(APPENDIX, &format!("must agree at {} with a verdict", percent(chance)));
    let precision = number("crates/track/src/run", "interleaved.rs", "PRECISION");
    check(
        APPENDIX,
        &format!("a change of {} would have been detected in every benchmark", percent(precision)),
    );
}

#[test]
fn noise_and_spikes() {
    let spike = number(STATS, "robust_level.rs", "SPIKE_FROM");
    let one_in = number(STATS, "robust_level.rs", "ONE_SPIKE_IN");
    check(
        APPENDIX,
        &format!("farther than {spike} spreads from the median of its piece is a spike"),
    );
    check(APPENDIX, &format!("| a spike is farther than | {spike} spreads |"));
    check(APPENDIX, &format!("at most one value in {} is", word(one_in)));
    check(APPENDIX, &format!("| spikes at most | 1 value in {one_in} |"));
    let part = |name| number(VERDICT, "auto/case.rs", name);
    let [step, equal, change] = ["STEP_PART", "EQUAL_PART", "CHANGE_PART"].map(part);
    check(
        APPENDIX,
        &format!("| {step} steps; {change} of the least change; {equal} of the level ÷ n |"),
    );
    let kinds = |name| numbers(STATS, "noise/kinds.rs", name);
    let firsts = |name| kinds(name).into_iter().step_by(2).collect::<Vec<f64>>();
    let priors = |name| kinds(name).into_iter().skip(1).step_by(2).map(percent).collect::<Vec<_>>();
    let [normal, five, three, two] = firsts("TAILS")[..] else { panic!("four tails") };
    assert_eq!(normal, f64::INFINITY);
    check(APPENDIX, &format!("Student's t with {five}, {three} or {two} degrees"));
    let shares: Vec<String> =
        firsts("SHARES").iter().map(|share| (share * 100.0).round().to_string()).collect();
    let (last, all) = shares.split_last().expect("shares");
    check(APPENDIX, &format!("{} or {last} % of the values are spikes", all.join(", ")));
    let [small, middle, large] = kinds("SIZES")[..] else { panic!("three sizes") };
    check(APPENDIX, &format!("are {small}, {middle} or {large} times as wide as usual values"));
    let count = firsts("TAILS").len() * (1 + (shares.len() - 1) * 3);
    check(APPENDIX, &format!("so {count} kinds are considered at once"));
    let tails = priors("TAILS").join(", ").replace(" %,", ",");
    let [none, each, ..] = &priors("SHARES")[..] else { panic!("shares") };
    let widths = kinds("SIZE_PRIORS").into_iter().map(percent).collect::<Vec<_>>().join(", ");
    let widths = widths.replace(" %,", ",");
    check(
        APPENDIX,
        &format!("| tails {tails}; no spikes {none}, each share {each}; widths {widths} |"),
    );
    let scales = number(STATS, "noise/tables.rs", "SCALES");
    check(APPENDIX, &format!("together with {scales} sizes of the true spread"));
    let carried = number(STATS, "noise/ratio.rs", "CARRIED_MAX");
    let correlation = number(STATS, "changes/noise.rs", "CORRELATION_MAX");
    check(APPENDIX, &format!("Errors beyond {carried} spreads carry nothing over"));
    check(APPENDIX, &format!("adjacent values, which is at most {correlation}"));
    let degrees = number(VERDICT, "auto/case.rs", "DEGREES_MIN");
    check(APPENDIX, &format!("at least {degrees} degrees of freedom"));
}

#[test]
fn evidence() {
    let points = number(VERDICT, "auto.rs", "POINTS_MIN");
    check(APPENDIX, &format!("| points of history | {points} |"));
    let [one, last] = numbers(VERDICT, "auto/run.rs", "REPORTS")[..] else { panic!("a range") };
    assert_eq!(one, 1.0, "several values of one report");
    check(RULE, &format!("the newest two to {}, on a branch", word(last)));
    check(APPENDIX, &format!("the newest two to {} reports are judged together", word(last)));
    check(APPENDIX, &format!("| reports together | {last} |"));
    let run = |name| number(VERDICT, "auto/run.rs", name);
    check(
        APPENDIX,
        &format!("| newest value off, to consider several | {} spreads |", run("FROM")),
    );
    let (chance, power) = (run("RATIO_CHANCE"), run("RATIO_POWER"));
    check(APPENDIX, &format!("| probability of a ratio r | {chance} ÷ r^{power} |"));
    let weight = run("WEIGHT_OF_MORE") / run("WEIGHT_OF_TWO");
    check(APPENDIX, &format!("| two values count, relative to three | 1/{weight} |"));
    check(APPENDIX, &format!("| correlation of repeats | {} |", run("CORRELATION_OF_REPEATS")));
    let pushes = number("crates/track/src", "evaluate.rs", "PUSHES_MAX");
    check(APPENDIX, &format!("the newest {} are judged together with this report", word(pushes)));
    let share = |name| number(VERDICT, "auto/evidence.rs", name);
    let [value, run, level] = ["VALUE_SHARE", "RUN_SHARE", "LEVEL_SHARE"].map(share).map(percent);
    check(
        APPENDIX,
        &format!(
            "a value alone has {value}, the newest reports together {run}, a new level {level}"
        ),
    );
    let beside = number(VERDICT, "history.rs", "AROUND");
    let text = format!("{} points on each side decide", word(beside));
    check(APPENDIX, &(text[..1].to_uppercase() + &text[1..]));
}

#[test]
fn levels_and_crowds() {
    let reports = number(VERDICT, "auto/case.rs", "NEW_LEVEL_REPORTS");
    check(RULE, &format!("**A new level** of {} or more reports", word(reports)));
    check(APPENDIX, &format!("**A new level** of {} or more values", word(reports)));
    check(APPENDIX, &format!("| reports of a new level | {reports} |"));
    assert_eq!(number(VERDICT, "level.rs", "BETTER_MAX"), 0.125);
    let agree = number(VERDICT, "level.rs", "AGREE");
    check(
        APPENDIX,
        &format!(
            "by at most an eighth of the step, and not better than each of the {} values before",
            word(agree)
        ),
    );
    let fresh = number(VERDICT, "level.rs", "FRESH_MAX");
    check(APPENDIX, &format!("begins within the newest {} points", word(fresh)));
    let together = |name| number(VERDICT, "common_shift.rs", name);
    let benchmarks = word(together("BENCHMARKS_MIN"));
    let most = match together("MOST") {
        0.75 => "three quarters",
        _ => "another share",
    };
    check(RULE, &format!("(at least {benchmarks} benchmarks, {most} of them, in one direction)"));
    check(
        APPENDIX,
        &format!("at least {benchmarks} benchmarks of a measure were judged, and {most}"),
    );
    assert_eq!(together("MOVED_SHARE"), 0.5);
    check(APPENDIX, "at least half as far as the middle one");
}

#[test]
fn slow_drift() {
    let of = |name| number(STATS, "drift.rs", name);
    let (block, least, most) = (of("BLOCK"), of("BLOCKS_MIN"), of("BLOCKS_MAX"));
    assert_eq!((drift::POINTS_MIN as f64, drift::POINTS_MAX as f64), (block * least, block * most));
    check(RULE, &format!("has risen by 73 % over {} reports", block * (most - 1.0)));
    check(
        APPENDIX,
        &format!(
            "the newest {least} to {most} blocks of {} reports move to one side: by {} and by {} mean distances",
            word(block),
            percent(of("CHANGE_MIN")),
            of("SCATTERS_MIN")
        ),
    );
    assert_eq!((of("BLOCK_SHARE_MAX"), of("WAY_MAX")), (0.5, 1.5));
    check(
        APPENDIX,
        "by none of them more than half of the way, and to and fro by half of the way in all",
    );
    let mark = of("MARK_FACTOR");
    check(APPENDIX, &format!("the marks 1, {mark}, {} and so on", mark * mark));
}

#[test]
fn change_points() {
    let of = |file: &str, name| number(STATS, &format!("changes/{file}.rs"), name);
    let changes::Settings { false_alarm_chance, change_min } = changes::Settings::default();
    check(RULE, &format!("1 series in {},000", (1e-3 / false_alarm_chance).round()));
    check(APPENDIX, &format!("those with p > α ({false_alarm_chance})"));
    check(APPENDIX, &format!("until all that remain have p ≤ {}", of("settle", "SEARCH_CHANCE")));
    check(
        APPENDIX,
        &format!(
            "the median of the {} around it than {} times the local scatter",
            word(2.0 * of("clean", "REACH") + 1.0),
            of("clean", "FAR")
        ),
    );
    check(
        APPENDIX,
        &format!(
            "Windows of {} to {} points slide",
            of("scan", "WINDOW_MIN"),
            of("scan", "WINDOW_MAX")
        ),
    );
    check(APPENDIX, &format!("and by {} standard errors", of("scan", "DIFFERENCE_MIN")));
    let windows = numbers(STATS, "changes/noise.rs", "WINDOWS");
    let (first, last) = (windows[0], windows[windows.len() - 1]);
    check(APPENDIX, &format!("adjacent windows of {first} to {last} points"));
    check(APPENDIX, &format!("counts as {} pairs of windows", of("noise", "PAIRS_OF_PRIOR")));
    check(APPENDIX, &format!("So the first guess is {},", of("noise", "STRONG")));
    check(APPENDIX, &format!("t-test of up to {} points on each side", of("evidence", "WINDOW")));
    let places = word(of("evidence", "PLACES_PER_POINT"));
    check(APPENDIX, &format!("multiplied by {places} times the number of points"));
    let (length, end) =
        (number(STATS, "changes.rs", "LENGTH_MIN"), number(STATS, "changes.rs", "END_MIN"));
    check(APPENDIX, &format!("{length} points between two changes and {end} at the ends"));
    check(
        APPENDIX,
        &format!(
            "at least {} standard deviation of single values, and of {} of the level",
            word(of("evidence", "EFFECT_MIN")),
            percent(change_min)
        ),
    );
    check(APPENDIX, &format!("with a probability of {}", percent(of("evidence", "BEYOND_MIN"))));
    check(
        APPENDIX,
        &format!("half of the change happens within {} points", of("evidence", "NEAR")),
    );
    let (stay, order) = (of("segments", "STAY_MAX"), of("fit", "ORDER_MAX"));
    check(APPENDIX, &format!("Up to {} points after which the old level returns", word(stay)));
    check(APPENDIX, &format!("depend on up to {} before them", word(order)));
}
