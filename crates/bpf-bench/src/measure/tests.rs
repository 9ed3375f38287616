//! Measurements with a fake kernel: the order of actions, what is left out, and what is reported about it.

use std::{ops::Range, sync::atomic::AtomicBool, time::Duration};

use wingbeat_bpf_loader::{ProgramType, code::Code, spec::Linked};
use wingbeat_bpf_testing::linked;

use super::{
    BenchError, Watcher,
    against::{Contestants, contest},
    empty_baseline::{BASELINE, baselines},
    fake::{Behaviour, World},
    runner::Runner as _,
    schedule::Programs,
    session::{Budget, Session},
};
use crate::{
    analyse::{Later, Measured, RawCase, compare::Contested},
    plan::Plan,
    result::PacketSource,
};

const SECOND: Duration = Duration::from_secs(1);

fn plan(time: Option<Duration>, samples: Option<usize>) -> Plan {
    Plan { time, samples, allow_statistics: true, ..Plan::default() }
}

fn try_measure(world: &World, plan: &Plan, names: &[&str]) -> Result<Measured, BenchError> {
    let wanted = World::linked(names);
    let wanted: Vec<&Linked> = wanted.iter().collect();
    let other = linked("on_event", ProgramType::KPROBE, Code::default());
    let baselines = baselines(wanted.iter().copied());
    let stop = AtomicBool::new(false);
    let watcher = Watcher { show: &|_| {}, stop: &stop };
    let budget = Budget::new(world.now(), plan.time_for(names.len(), 1));
    Session::new(plan, &watcher, world, budget).measure(&Programs {
        baselines: &baselines,
        wanted: &wanted,
        others: &[&other],
        source: "",
        no_source: "",
        unlinked: &[],
    })
}

fn measure(world: &World, plan: &Plan, names: &[&str]) -> Measured {
    try_measure(world, plan, names).expect("it is measured")
}

/// Checks the total time, not counting a run of the baseline at the end.
#[track_caller]
fn assert_took(measured: &Measured, expected: Duration) {
    let more = measured.duration.checked_sub(expected);
    assert!(more.is_some_and(|more| more < Duration::from_micros(10)), "{:?}", measured.duration);
}

/// The log of actions, without baselines.
fn log(world: &World) -> Vec<String> {
    let log = world.log.borrow();
    let mut log: Vec<String> =
        log.iter().filter(|line| !line.ends_with(BASELINE)).cloned().collect();
    // Counted several times, to see whether the count is constant.
    log.dedup_by(|line, before| line == before && line.starts_with("count"));
    log
}

fn case<'a>(measured: &'a Measured, name: &str) -> &'a RawCase {
    measured.cases.iter().find(|case| case.name == name).expect(name)
}

fn failures(measured: &Measured) -> Vec<(&str, &str)> {
    measured.failures.iter().map(|it| (&*it.name, &*it.reason)).collect()
}

#[test]
fn what_matters_most_comes_first() {
    let alternates = Behaviour { alternates: true, ..Behaviour::default() };
    let world = World::new(&[("p", alternates), ("q", alternates)]);
    let measured = measure(&world, &plan(Some(5 * SECOND), Some(1)), &["p", "q"]);
    let log = log(&world);
    let expected = [
        "load p",
        "first run p",
        "batch p",
        "load q",
        "first run q",
        "batch q",
        "load on_event",
        "add counters to p",
        "count p",
        "add counters to q",
        "count q",
        "put a clock around p",
        "put a clock around q",
        "pair p",
        "pair q",
    ];
    assert_eq!(log[..expected.len()], expected);
    let mut bursts = log[expected.len()..].to_vec();
    bursts.retain(|line| line.starts_with("bursts"));
    bursts.sort();
    assert_eq!(bursts, ["bursts p", "bursts q"]);
    assert_eq!(failures(&measured), []);
    assert_eq!((&*measured.skipped[0].name, measured.verified.len()), ("on_event", 1));
    assert_eq!(measured.baselines.len(), 1);
}

#[test]
fn figures_are_those_of_the_clock() {
    let slow = Behaviour { run_ns: 250, ..Behaviour::default() };
    let quick = Behaviour { run_ns: 40, alternates: true, ..Behaviour::default() };
    let world = World::new(&[("slow", slow), ("quick", quick)]);
    let measured = measure(&world, &plan(Some(2 * SECOND), None), &["slow", "quick"]);
    assert_took(&measured, 2 * SECOND);
    let slow = &case(&measured, "slow").run;
    assert!(slow.samples_ns.len() > 10);
    assert!(slow.samples_ns.iter().all(|ns| (ns - 250.0).abs() < 1e-6), "{slow:?}");
    assert_eq!(slow.no_bursts.as_deref(), Some("it cannot alternate"));
    let quick = &case(&measured, "quick").run;
    assert!(quick.samples_ns.iter().all(|&ns| ns == 40.0), "{quick:?}");
    assert!(quick.net_ns.iter().all(|&ns| ns == 39.0), "{quick:?}");
    assert_eq!(quick.recorded.as_ref().map(|it| (it.min_ns, it.max_ns)), Some((40, 40)));
    assert_eq!(case(&measured, "slow").instructions, Ok(7));
    let baseline = &measured.baselines[0].1;
    assert!(baseline.samples_ns.iter().all(|&ns| ns == 1.0), "{baseline:?}");
}

#[test]
fn a_program_that_changes_its_packet_is_timed_on_what_was_asked_for() {
    let check = |can_be_put_back, samples: Range<f64>| {
        let decap = Behaviour {
            run_ns: 1_000,
            own_output_ns: Some(20),
            alternates: true,
            can_be_put_back,
            ..Behaviour::default()
        };
        let world = World::new(&[("decap", decap)]);
        let measured = measure(&world, &plan(Some(2 * SECOND), None), &["decap"]);
        let found = case(&measured, "decap");
        assert_eq!(found.run.packet, PacketSource::Restored);
        assert_eq!(found.run.no_bursts.is_none(), can_be_put_back);
        let is_fresh = |ns: &f64| samples.contains(ns);
        assert!(found.run.samples_ns.len() > 10 && found.run.samples_ns.iter().all(is_fresh));
        // Excludes the clock overhead of calls.
        let is_own = |ns: &f64| (20.0..25.0).contains(ns);
        let own_ns = &found.run.own_output_ns;
        assert!(!own_ns.is_empty() && own_ns.iter().all(is_own), "{own_ns:?}");
        let own = Later { instructions: Some(2), return_value: Some(1), varies: false };
        let settled = Later { instructions: Some(7), return_value: Some(2), varies: false };
        assert_eq!((found.own_output, found.settled), (Some(own), Some(settled)));
        assert!(found.run.returned.iter().all(|value| *value == 2), "{:?}", found.run.returned);
    };
    check(true, 1_000.0..1_000.1);
    check(false, 999.0..1_000.1);
}

#[test]
fn turns_alternate_in_a_random_order() {
    let alternates = Behaviour { alternates: true, ..Behaviour::default() };
    let world = World::new(&[("p", alternates), ("q", alternates)]);
    let measured = measure(&world, &plan(Some(60 * SECOND), Some(30)), &["p", "q"]);
    let mut bursts = log(&world);
    bursts.retain(|line| line.starts_with("bursts"));
    assert_eq!(bursts.len(), 60);
    let rounds: Vec<_> = bursts.chunks(2).collect();
    assert!(rounds.iter().all(|round| round[0] != round[1]), "{rounds:?}");
    let p_first = rounds.iter().filter(|round| round[0] == "bursts p").count();
    assert!((5..=25).contains(&p_first), "{p_first}");
    assert_eq!(case(&measured, "p").run.samples_ns.len(), 30);
    assert!(measured.duration < 60 * SECOND);
}

#[test]
fn a_short_time_leaves_out_what_does_not_fit() {
    let large = Behaviour { load: SECOND, alternates: true, ..Behaviour::default() };
    let world = World::new(&[("p", large), ("q", large)]);
    let measured = measure(&world, &plan(Some(4 * SECOND), None), &["p", "q"]);
    assert_took(&measured, 4 * SECOND);
    for name in ["p", "q"] {
        let case = case(&measured, name);
        let check = |reason: Option<&str>, seconds: &str| {
            let expected = format!(
                "loading it for that takes about {seconds}0 s, for which the time is too short; \
                 increase --time"
            );
            assert_eq!(reason, Some(&*expected), "{name}");
        };
        check(case.instructions.as_ref().err().map(String::as_str), "1.6");
        check(case.no_clock.as_deref(), "1.3");
        check(case.run.no_bursts.as_deref(), "1.3");
        assert!(case.run.samples_ns.len() > 100);
    }
    assert_eq!(failures(&measured), []);
    // Even less: the third is not even begun.
    let world = World::new(&[("p", large), ("q", large), ("r", large)]);
    let measured = measure(&world, &plan(Some(3 * SECOND / 2), None), &["p", "q", "r"]);
    assert_took(&measured, 3 * SECOND / 2);
    let over = "the time ran out before it was loaded; increase --time";
    let failures = failures(&measured);
    assert_eq!(failures.iter().map(|it| it.0).collect::<Vec<_>>(), ["q", "r", "on_event"]);
    assert_eq!((failures[1].1, failures[2].1), (over, over));
    assert_eq!(case(&measured, "p").run.samples_ns.len(), 1);
}

#[test]
fn a_long_load_makes_the_time_longer_unless_it_was_asked_for() {
    let check = |time, expected| {
        let large = Behaviour { load: 3 * SECOND, ..Behaviour::default() };
        let world = World::new(&[("p", large)]);
        assert_took(&measure(&world, &plan(time, None), &["p"]), expected);
    };
    let loads_on_event = Behaviour::default().load;
    check(None, 18 * SECOND + loads_on_event);
    check(Some(5 * SECOND), 5 * SECOND);
}

#[test]
fn ctrl_c_ends_it_between_any_two_steps() {
    let check = |stop_at_ms, expected: &[(&str, &str)], instructions: Option<&str>| {
        let large = Behaviour { load: SECOND, ..Behaviour::default() };
        let mut world = World::new(&[("p", large), ("q", large)]);
        world.stop_at = Some(Duration::from_millis(stop_at_ms));
        let measured = measure(&world, &plan(Some(60 * SECOND), None), &["p", "q"]);
        assert_took(&measured, Duration::from_millis(stop_at_ms));
        let found = failures(&measured);
        let is_reported = |(name, part): &&(&str, &str)| {
            found.iter().any(|(known, reason)| known == name && reason.contains(part))
        };
        assert_eq!(expected.iter().find(|it| !is_reported(it)), None, "{stop_at_ms}: {found:?}");
        let p = measured.cases.iter().find(|case| case.name == "p");
        let reason = p.and_then(|case| case.instructions.as_ref().err());
        assert_eq!(reason.map(String::as_str), instructions, "{stop_at_ms}");
    };
    let not_loaded = "interrupted before it was loaded";
    check(500, &[("q", not_loaded), ("on_event", not_loaded)], None);
    let not_counted = Some("interrupted before its instructions were counted");
    check(1500, &[("on_event", not_loaded)], not_counted);
    check(2500, &[], not_counted);
    // While samples are taken.
    check(30_000, &[], None);
}

#[test]
fn a_run_that_hangs_takes_no_more_than_its_share() {
    let hangs = Behaviour { run_ns: u64::MAX, ..Behaviour::default() };
    let world = World::new(&[("p", Behaviour::default()), ("hangs", hangs)]);
    let measured = measure(&world, &plan(Some(4 * SECOND), None), &["p", "hangs", "late"]);
    assert_took(&measured, 4 * SECOND);
    // Later programs are measured like earlier ones.
    for name in ["p", "late"] {
        assert!(case(&measured, name).run.samples_ns.len() > 10, "{name}");
        assert_eq!(case(&measured, name).instructions, Ok(7));
    }
    let [(name, reason)] = failures(&measured)[..] else { panic!("{measured:?}") };
    assert_eq!(name, "hangs");
    assert!(reason.starts_with("the time ran out before the run"), "{reason}");
    assert!(reason.contains("; that was its share of the time, 2"), "{reason}");
    let verified: Vec<_> = measured.verified.iter().map(|it| (&*it.name, &*it.reason)).collect();
    assert!(verified.contains(&("hangs", "it could not be run")), "{verified:?}");
    // The last one has all the remaining time.
    let world = World::new(&[("hangs", hangs)]);
    let measured = measure(&world, &plan(Some(2 * SECOND), None), &["p", "hangs"]);
    assert_took(&measured, 2 * SECOND);
    assert_eq!(case(&measured, "p").run.samples_ns.len(), 1);
    assert!(!failures(&measured)[0].1.contains("share"));
}

#[test]
fn a_slow_program_leaves_the_others_their_time() {
    let slow = Behaviour { run_ns: 3_000_000_000, ..Behaviour::default() };
    let check = |programs: &[&str], seconds: u32, slow_counts: Result<u64, &str>| {
        let world = World::new(&[("slow", slow)]);
        let measured = measure(&world, &plan(Some(seconds * SECOND), None), programs);
        assert_eq!(failures(&measured), []);
        let quick = case(&measured, "quick");
        assert_eq!(quick.instructions, Ok(7), "{programs:?}");
        assert!(quick.run.samples_ns.len() > 10, "{programs:?}");
        let found = case(&measured, "slow");
        assert!(!found.run.samples_ns.is_empty(), "{programs:?}");
        let counts = found.instructions.as_ref().copied().map_err(String::as_str);
        assert_eq!(counts, slow_counts, "{programs:?}");
    };
    let short = "counting them in one run takes about 4.50 s, for which the time is too short; \
                 increase --time";
    check(&["slow", "quick"], 8, Err(short));
    check(&["quick", "slow"], 6, Err(short));
    check(&["quick", "slow"], 20, Ok(7));
}

#[test]
fn programs_for_events_take_no_time_from_the_others() {
    let large = Behaviour { load: 30 * SECOND, ..Behaviour::default() };
    let world = World::new(&[("on_event", large)]);
    let default = plan(None, None).time_for(1, 1);
    let measured = measure(&world, &plan(None, None), &["p"]);
    assert_took(&measured, default + 30 * SECOND);
    assert_eq!((measured.verified.len(), failures(&measured)), (1, vec![]));
    assert!(case(&measured, "p").run.samples_ns.len() > 10);
    // Unless the user set the time.
    let world = World::new(&[("on_event", large)]);
    let measured = measure(&world, &plan(Some(5 * SECOND), None), &["p"]);
    assert_took(&measured, 5 * SECOND);
}

#[test]
fn a_program_that_fails_is_in_nobodys_way() {
    let refused = Behaviour { refused: true, ..Behaviour::default() };
    let fails_at = |run| Behaviour { fails_at: Some(run), ..Behaviour::default() };
    let programs =
        [("refused", refused), ("first", fails_at(1)), ("later", fails_at(36)), ("p", fails_at(0))];
    let world = World::new(&programs);
    let names = programs.map(|(name, _)| name);
    let measured = measure(&world, &plan(Some(5 * SECOND), Some(20)), &names);
    let error = "it returned an error";
    let expected = [("refused", "the verifier refuses it"), ("first", error), ("later", error)];
    assert_eq!(failures(&measured), expected);
    let samples = |name| case(&measured, name).run.samples_ns.len();
    assert_eq!(samples("p"), 20);
    assert!((1..20).contains(&samples("later")));
}

#[test]
fn statistics_that_are_on_are_noticed() {
    let counted = || {
        let mut world = World::new(&[]);
        world.are_runs_counted = true;
        world
    };
    let allowed = plan(Some(SECOND), None);
    assert!(measure(&counted(), &allowed, &["p"]).observed.were_runs_counted);
    assert!(!measure(&World::new(&[]), &allowed, &["p"]).observed.were_runs_counted);
    let strict = Plan { allow_statistics: false, ..allowed };
    let refused = try_measure(&counted(), &strict, &["p"]);
    assert!(matches!(refused, Err(BenchError::StatisticsOn)), "{refused:?}");
}

/// Alternates `p` of an old and a new object.
fn compare(old: Behaviour, new: Behaviour) -> (World, Vec<Contested>) {
    let world = World::new(&[("old p", old), ("new p", new)]);
    let (programs, plan) = (World::linked(&["p"]), plan(Some(2 * SECOND), None));
    let stop = AtomicBool::new(false);
    let watcher = Watcher { show: &|_| {}, stop: &stop };
    let session = Session::new(&plan, &watcher, &world, Budget::new((&world).now(), 2 * SECOND));
    let contested = contest(
        session,
        &Contestants {
            baselines: &baselines(programs.iter()),
            programs: &[[&programs[0], &programs[0]]],
            varying: &[],
            sources: ["old ", "new "],
            no_source: "",
        },
    );
    let contested = contested.expect("they are compared");
    (world, contested)
}

#[test]
fn two_objects_alternate_in_pairs_of_loads() {
    let check = |alternates, part: &str| {
        let old = Behaviour { alternates, ..Behaviour::default() };
        let (world, contested) = compare(old, Behaviour { run_ns: 110, ..old });
        let [found] = &contested[..] else { panic!("{contested:?}") };
        assert!(found.pairs.len() > 20, "{}", found.pairs.len());
        for pair in &found.pairs {
            assert!((pair.after_ns / pair.before_ns - 1.1).abs() < 1e-6, "{pair:?}");
        }
        assert_eq!(found.no_bursts.is_none(), alternates);
        assert_eq!((&world).now().duration_since(world.begun()), 2 * SECOND);
        let log = log(&world);
        assert!(log.iter().filter(|line| *line == part).count() > 20, "{log:?}");
    };
    check(true, "bursts p");
    check(false, "reload p");
}

#[test]
fn what_changes_its_packet_is_compared_by_calls() {
    let old = Behaviour { run_ns: 1_000, own_output_ns: Some(20), ..Behaviour::default() };
    let (_, contested) = compare(old, Behaviour { run_ns: 500, ..old });
    let pairs = &contested[0].pairs;
    assert!(pairs.len() > 20, "{}", pairs.len());
    assert!(pairs.iter().all(|it| (it.after_ns / it.before_ns - 0.5).abs() < 0.01), "{pairs:?}");
}

#[test]
fn a_side_that_hangs_leaves_no_pairs() {
    let hangs = Behaviour { run_ns: u64::MAX, ..Behaviour::default() };
    let (_, contested) = compare(Behaviour::default(), hangs);
    assert!(contested.iter().all(|it| it.pairs.is_empty()), "{contested:?}");
}
