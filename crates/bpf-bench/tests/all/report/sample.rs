//! Hand-made results, with figures taken from the examples.

use wingbeat_bpf_bench::{
    Warning,
    analyse::compare::exact_measure,
    conditions::Conditions,
    counts::{Calls, TailCalls},
    result::{
        Baseline, BenchReport, Case, CaseComparison, ChangeInterval, Circumstances, Comparison,
        Distribution, Failure, Latency, MeasureComparison, Method, Outliers, OwnOutput,
        PacketSource, PairedVerdict, Part, RunCounts, RunOutcome, SCHEMA_VERSION, Size, Verified,
        Verifier,
    },
};

/// A time with an interval of one percent.
pub(crate) fn latency(median_ns: f64, net_ns: f64) -> Latency {
    Latency {
        method: Method::Bursts,
        reason: None,
        packet: PacketSource::Unchanged,
        batches: 200,
        runs_per_batch: 20_000,
        median_ns,
        mean_ns: median_ns * 1.01,
        lower_ns: median_ns * 0.995,
        upper_ns: median_ns * 1.005,
        confidence: 0.95,
        net_ns: Some(net_ns),
        floor_ns: median_ns * 0.98,
        spread_ns: median_ns * 0.01,
        min_ns: median_ns * 0.98,
        max_ns: median_ns * 1.2,
        kernel_ns: median_ns as u32,
        outliers: Outliers { low_severe: 0, low_mild: 1, high_mild: 3, high_severe: 2 },
        samples_ns: vec![median_ns, median_ns * 1.01],
    }
}

/// Times of single runs around a median.
pub(crate) fn distribution(p50_ns: f64) -> Distribution {
    Distribution {
        runs: 1_500_000,
        p50_ns,
        p50_lower_ns: Some(p50_ns - 0.5),
        p50_upper_ns: Some(p50_ns + 0.5),
        p90_ns: p50_ns * 1.05,
        p99_ns: p50_ns * 1.15,
        p999_ns: p50_ns * 1.7,
        max_ns: 45_325,
        min_ns: (p50_ns as u64).saturating_sub(2),
        mean_ns: p50_ns * 1.02,
        clock_ns: Some(21.0),
        net_p50_ns: Some(p50_ns - 21.0),
        net_p50_lower_ns: Some(p50_ns - 21.5),
        net_p50_upper_ns: Some(p50_ns - 20.5),
        wrapper_ns: 26.0,
    }
}

pub(crate) fn baseline() -> Baseline {
    Baseline {
        r#type: "xdp".to_owned(),
        latency: Part::Measured(latency(10.12, 0.0)),
        distribution: Part::Measured(distribution(21.0)),
    }
}

fn call(name: &str, calls: u64, is_kfunc: bool) -> Calls {
    Calls { name: name.to_owned(), is_kfunc, calls }
}

/// A case of the program on the default packet.
pub(crate) fn case(program: &str, median_ns: f64, instructions: u64) -> Case {
    let calls = vec![call("bpf_map_push_elem", 1, false), call("bpf_dynptr_from_xdp", 1, true)];
    Case {
        name: program.to_owned(),
        program: program.to_owned(),
        input: "default".to_owned(),
        input_bytes: 64,
        r#type: "xdp".to_owned(),
        outcome: RunOutcome {
            return_value: 2,
            return_name: Some("XDP_PASS".to_owned()),
            output_bytes: Some(64),
            ..RunOutcome::default()
        },
        latency: Part::Measured(latency(median_ns, median_ns - 10.12)),
        distribution: Part::Measured(distribution(median_ns + 11.0)),
        counts: Part::Measured(RunCounts { instructions, calls, ..RunCounts::default() }),
        own_output: None,
        tail_calls: TailCalls::default(),
        verifier: Verifier {
            processed_instructions: Some(instructions * 4),
            total_states: Some(3909),
            peak_states: Some(2111),
            max_states_per_instruction: Some(8),
            mark_read: Some(55),
            stack_depth_bytes: 184,
            duration_us: Some(12_345),
        },
        size: Size {
            object_instructions: 310,
            xlated_bytes: 2_480,
            jited_bytes: 1_431,
            map_memory_bytes: Some(8_384),
        },
        profile: None,
    }
}

/// As `case`, on an input of several.
pub(crate) fn case_on(program: &str, input: &str, median_ns: f64, instructions: u64) -> Case {
    let case = case(program, median_ns, instructions);
    Case { name: format!("{program}/{input}"), input: input.to_owned(), ..case }
}

pub(crate) fn report(cases: Vec<Case>) -> BenchReport {
    let machine = Conditions {
        cpu_measured: 1,
        kernel_release: Some("6.18.44".to_owned()),
        cpu_model: Some("Intel(R) Xeon(R) Processor @ 2.50GHz".to_owned()),
        ..Conditions::default()
    };
    BenchReport {
        schema_version: SCHEMA_VERSION,
        wingbeat: "0.0.0".to_owned(),
        object: "target/fun-xdp.o".to_owned(),
        seed: 7,
        cpu: 1,
        clock_step_ns: Some(10.0),
        duration_ns: 12_300_000_000,
        is_interrupted: false,
        baselines: vec![baseline()],
        cases,
        failures: Vec::new(),
        skipped: Vec::new(),
        verified: Vec::new(),
        conditions: Circumstances {
            before: machine.clone(),
            after: machine,
            load: None,
            retries: 0,
        },
        warnings: Vec::new(),
    }
}

/// Two programs, one of which changes its packet and affects its own next run.
pub(crate) fn typical() -> BenchReport {
    let mut v3 = case("fun_xdp_v3", 63.44, 1_234);
    let mut v4 = case("fun_xdp_v4", 45.2, 118);
    if let Part::Measured(counts) = &mut v3.counts {
        counts.steady_instructions = Some(1_198);
    }
    if let Part::Measured(latency) = &mut v3.latency {
        latency.method = Method::Batches;
        latency.reason = Some("instruction 12 is a tail call".to_owned());
    }
    v4.outcome = RunOutcome {
        return_value: 1,
        return_name: Some("XDP_DROP".to_owned()),
        unmet_expectation: Some(2),
        later_return_value: Some(0),
        output_bytes: Some(78),
        has_changed_packet: true,
        output_hex: Some("00005e00530200005e005301".repeat(8)),
        ..RunOutcome::default()
    };
    v4.own_output = Some(OwnOutput {
        instructions: Some(12),
        return_value: Some(2),
        return_name: Some("XDP_PASS".to_owned()),
        median_ns: Some(13.4),
        net_ns: Some(3.28),
    });
    if let Part::Measured(latency) = &mut v4.latency {
        latency.packet = PacketSource::Restored;
    }
    let mut report = report(vec![v3, v4]);
    let told = "the verifier rejects fun_xdp_v2: unknown func\n12: (85) call \
                bpf_probe_read#4\n\tunknown func bpf_probe_read#4";
    let counted = Verifier { processed_instructions: Some(13), ..Verifier::default() };
    report.failures = vec![Failure {
        is_rejected: true,
        verifier: Some(counted),
        ..Failure::new("fun_xdp_v2", told)
    }];
    let skipped =
        |name: &str| Failure::new(name, "programs of type kprobe cannot be run on demand");
    report.skipped = vec![skipped("on_open"), skipped("on_close")];
    report.verified = vec![verified("on_open")];
    report.warnings = vec![
        Warning::new(
            "statistics-on",
            "run-time statistics are on (sysctl kernel.bpf_stats_enabled = 1)",
            "each run takes longer, by about 45 ns on a server of 2.5 GHz, which is several times the cost \
             of a short program",
            "turn them off with `sysctl kernel.bpf_stats_enabled=0`",
        ),
        Warning::new(
            "governor",
            "the CPU's frequency governor is powersave",
            "the frequency follows the load",
            "set it with `cpupower frequency-set -g performance`",
        ),
    ];
    report
}

/// A program that only its event can run, with figures from loading.
pub(crate) fn verified(name: &str) -> Verified {
    let Case { verifier, size, .. } = case(name, 63.44, 512);
    let reason = "programs of type kprobe cannot be run on demand".to_owned();
    Verified { name: name.to_owned(), r#type: "kprobe".to_owned(), reason, verifier, size }
}

/// Only programs that cannot be run.
pub(crate) fn only_verified() -> BenchReport {
    let mut report = report(Vec::new());
    report.verified = vec![verified("on_open"), verified("on_close")];
    report.skipped = report.verified.iter().map(|it| Failure::new(&it.name, &it.reason)).collect();
    report
}

/// Every optional value is missing.
pub(crate) fn unavailable() -> BenchReport {
    let missing = |name: &str| {
        let wrapper = "the program throws exceptions, which the timing wrapper does not see";
        let mut case = case(name, 63.44, 1_234);
        case.outcome.return_name = None;
        case.outcome.output_bytes = None;
        case.latency = Part::Unavailable("time was up before its turn".to_owned());
        case.distribution = Part::Unavailable(wrapper.to_owned());
        case.counts = Part::Unavailable("the program has no free register".to_owned());
        case.verifier = Verifier { stack_depth_bytes: 8, ..Verifier::default() };
        case.size.map_memory_bytes = None;
        case
    };
    let mut b = missing("b");
    b.distribution = Part::Unavailable("time was up before its turn".to_owned());
    let baseline = Baseline {
        r#type: "xdp".to_owned(),
        latency: Part::Unavailable("time was up before its turn".to_owned()),
        distribution: Part::Unavailable("the kernel\nrefused\tit".to_owned()),
    };
    let report = report(vec![missing("a"), b, missing("c")]);
    BenchReport { baselines: vec![baseline], is_interrupted: true, ..report }
}

/// One program on `count` packets of a capture; every tenth takes a longer path.
pub(crate) fn inputs(count: u32) -> BenchReport {
    let packet = |number: u32| {
        let instructions =
            if number.is_multiple_of(10) { 1_234 } else { 97 + u64::from(number % 3) };
        let median_ns = 12.0 + instructions as f64 / 20.0 + f64::from(number) / 100.0;
        case_on("fun_xdp_v3", &format!("dns#{number}"), median_ns, instructions)
    };
    report((1..=count).map(packet).collect())
}

pub(crate) fn long_names() -> BenchReport {
    let long = "a_classifier_of_source_addresses_whose_author_liked_names_that_say_it_all_at_once";
    report(vec![
        case("short", 63.44, 1_234),
        case("a_name_that_has_room_if_only_just", 63.44, 1_234),
        case(long, 1_063.4, 123_456),
        case(&format!("{long}_{long}"), 63.44, 1_234),
        case("escape\u{1b}[31m\n", 63.44, 1_234),
    ])
}

fn time(before: f64, change: f64, half: f64, verdict: PairedVerdict) -> MeasureComparison {
    MeasureComparison {
        measure: "latency".to_owned(),
        unit: "ns".to_owned(),
        before,
        after: before * (1.0 + change),
        change: Some(change),
        interval: Some(ChangeInterval {
            lower: change - half,
            upper: change + half,
            confidence: 0.99,
            pairs: 8,
            smallest_visible: Some(0.012),
        }),
        verdict,
        is_beyond_threshold: verdict == PairedVerdict::Worse && change > 0.01,
        runs: None,
    }
}

/// A slower program, an unchanged one, a faster one.
pub(crate) fn compared() -> Comparison {
    let exact = |measure: &str, unit: &str, before, after| {
        let can_fail = unit == "instructions";
        exact_measure(measure, unit, before, after, can_fail.then_some(0.0))
    };
    let name = |name: &str, measures| CaseComparison {
        name: name.to_owned(),
        method: Some(Method::Bursts),
        reason: None,
        measures,
    };
    let mut cases = vec![
        name(
            "fun_xdp_v3",
            vec![
                time(45.2, 0.41, 0.02, PairedVerdict::Worse),
                exact("instructions", "instructions", 118, 1_234),
                exact("verified-instructions", "instructions", 4_936, 4_936),
                exact("jited-size", "bytes", 1_431, 1_431),
                exact("stack-depth", "bytes", 0, 184),
                exact("return-value", "value", 2, 1),
            ],
        ),
        name(
            "fun_xdp_v4",
            vec![
                time(45.2, 0.003, 0.008, PairedVerdict::NoChangeSeen),
                exact("instructions", "instructions", 118, 118),
                exact("jited-size", "bytes", 1_431, 1_431),
            ],
        ),
        name(
            "fun_xdp_v1",
            vec![
                time(45.2, -0.12, 0.02, PairedVerdict::Better),
                exact("instructions", "instructions", 118, 104),
                time(45.2, 0.006, 0.002, PairedVerdict::Worse),
                time(45.2, 0.0, 1.0, PairedVerdict::TooFewPairs),
            ],
        ),
    ];
    cases[1].method = Some(Method::Batches);
    cases[1].reason = Some("one of them changes the packet that the other would get".to_owned());
    let mut report = typical();
    report.warnings.truncate(1);
    Comparison {
        schema_version: SCHEMA_VERSION,
        report,
        against: "before/fun-xdp.o".to_owned(),
        cases,
        unmatched: vec![Failure::new("fun_xdp_v0", "only before/fun-xdp.o has it")],
        time_threshold: 0.01,
        exact_threshold: 0.0,
    }
}
