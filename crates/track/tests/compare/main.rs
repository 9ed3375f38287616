//! The comparison of two revisions through the library: verdicts on made-up pairs, and a stop that
//! comes first. The binary's tests run whole comparisons.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use wingbeat_stats::{Sample, normal, random::Random};
use wingbeat_track::{
    adapter::Adapter,
    compare::{
        CompareError, Event, PairedVerdict, Plan, compare,
        judge::{Settings, judge, yardstick},
        series::Series,
    },
    model::{BenchmarkName, Measure},
};

/// Series of normal runs; the first is slower in the head by that share.
fn series(benchmarks: usize, pairs: usize, slower: f64, random: &mut Random) -> Vec<Series> {
    let mut run = || 1e6 * (0.01 * normal::quantile(random.unit().max(f64::EPSILON))).exp();
    let mut one = |at: usize| {
        let factor = if at == 0 { 1.0 + slower } else { 1.0 };
        Series {
            benchmark: BenchmarkName::new(format!("b{at}")).expect("a name"),
            is_ignored: false,
            measure: Measure::latency(),
            pairs: (0..pairs).map(|_| [run(), run() * factor]).collect(),
            seen: [pairs; 2],
        }
    };
    (0..benchmarks).map(&mut one).collect()
}

/// The example `compare_power` measures it; this notices when the share is off by far.
#[test]
fn equal_revisions_are_hardly_ever_called_different() {
    const BENCHMARKS: usize = 3;
    let mut random = Random::new(1);
    // `judge` would also find out what could have been seen, which takes long.
    let yardstick = yardstick(&Settings::default(), BENCHMARKS);
    let is_moved = |series: &Series| {
        let ratios = series.pairs.iter().map(|[base, head]| (head / base).ln()).collect();
        let ratios = Sample::new(ratios).expect("finite");
        !yardstick.interval(&ratios).expect("an interval").contains(0.0)
    };
    let false_ones =
        (0..20).filter(|_| series(BENCHMARKS, 8, 0.0, &mut random).iter().any(is_moved)).count();
    // 0.06 are due; two come about twice in 1,000 seeds.
    assert!(false_ones < 2, "{false_ones}");
}

#[test]
fn a_slowdown_is_found_among_others() {
    let mut random = Random::new(2);
    let (rows, _) = judge(&series(5, 32, 0.03, &mut random), &Settings::default());
    assert_eq!((rows[0].benchmark.as_str(), rows[0].verdict), ("b0", PairedVerdict::Worse));
    assert!(rows[0].is_beyond_threshold);
    assert!(rows[1..].iter().all(|row| row.verdict == PairedVerdict::NoChangeSeen));
}

#[test]
fn a_stop_that_comes_early_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let git = git.current_dir(&folder).args(["-c", "user.name=n", "-c", "user.email=n@x.org"]);
        let output = git.args(arguments).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    git(&["init", "--quiet"]);
    fs::write(folder.path().join("file"), "content").expect("written");
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "a commit"]);
    let plan = Plan {
        directory: folder.path().to_owned(),
        base: "HEAD".to_owned(),
        head: None,
        command: vec!["sleep".into(), "600".into()],
        build: None,
        adapter: Adapter::Magic,
        average: None,
        time: Duration::from_secs(1),
        until: None,
        settings: Settings::default(),
        seed: 1,
    };
    let check = |stop: &AtomicBool, observe: &mut dyn FnMut(Event<'_>)| {
        let found = compare(&plan, stop, observe);
        assert!(matches!(found, Err(CompareError::Interrupted)), "{found:?}");
        assert_eq!(git(&["worktree", "list"]).lines().count(), 1);
    };
    check(&AtomicBool::new(true), &mut |_| {});
    let stop = AtomicBool::new(false);
    check(&stop, &mut |_| stop.store(true, Ordering::Relaxed));
}
