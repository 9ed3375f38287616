//! Tests reading counters for the macro benchmark, which runs without the test harness.

use crate::counters::Counters;

#[test]
fn fdinfo_is_understood() {
    let check = |text, expected: Option<(u64, u64)>| {
        let expected = expected.map(|(run_time_ns, runs)| Counters { run_time_ns, runs });
        assert_eq!(Counters::parse(text), expected, "{text:?}");
    };
    let fdinfo = "pos:\t0\nflags:\t02000002\nprog_type:\t6\nmemlock:\t4096\nprog_id:\t7\n\
                  run_time_ns:\t1234\nrun_cnt:\t56\nrecursion_misses:\t0\n";
    check(fdinfo, Some((1234, 56)));
    check("run_cnt:\t56\nrun_time_ns:\t18446744073709551615\n", Some((u64::MAX, 56)));
    check("run_time_ns:\t1\n", None);
    check("run_time_ns:\t1\nrun_cnt:\tmany\n", None);
    check("run_time_ns:\t18446744073709551616\nrun_cnt:\t1\n", None);
    check("pos:\t0\nflags:\t02\n", None);
    check("", None);
}

#[test]
fn a_program_that_never_ran_costs_nothing_that_is_known() {
    let check = |run_time_ns, runs, expected| {
        let before = Counters { run_time_ns: 1000, runs: 10 };
        let after = Counters { run_time_ns, runs };
        assert_eq!(after.since(before).and_then(Counters::ns_per_run), expected, "{after:?}");
    };
    check(1500, 20, Some(50.0));
    check(1000, 10, None);
    check(999, 20, None);
}
