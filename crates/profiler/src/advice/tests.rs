//! Warnings by recording.

use std::collections::BTreeMap;

use super::*;
use crate::counts::{Switches, Ticks};
use crate::debuginfod::{Asked, BuildId, Outcome};
use crate::summary::{BrokenIn, off_cpu::Reused};

/// A CPU-time recording of one second on two CPUs with one busy thread.
fn summary() -> Summary {
    Summary {
        command_line: ["wingbeat", "profile", "-o", "it's.svg", "--pid", "7"]
            .map(str::to_owned)
            .into(),
        mode: Mode::OnCpu.name(),
        duration_ns: 1_000_000_000,
        frequency_hz: 99,
        cpus: 2,
        ticks: Ticks { sampled: 99, ..Ticks::default() },
        target_cpu_time_ns: 1_000_000_000,
        processes: 1,
        threads: 1,
        ..Summary::default()
    }
}

/// Same as [`summary`] in another mode, with a thousand blocks.
fn blocked(mode: Mode) -> (Summary, OffCpu) {
    let off_cpu = OffCpu {
        min_block_ns: 1_000,
        switches: Switches { out: 1_000, reported: 1_000, ..Switches::default() },
        stacks_taken: Reused {
            walked: 100,
            reused: 900,
            checked: 100,
            wrong: 1,
            ..Reused::default()
        },
        ..OffCpu::default()
    };
    (Summary { mode: mode.name(), ..summary() }, off_cpu)
}

#[test]
fn targets_that_hardly_ran_are_sent_to_the_other_mode() {
    let check = |cpu_ms: u64, threads: u32, samples: u64, expected: &[&str]| {
        let mut summary = summary();
        summary.target_cpu_time_ns = cpu_ms * 1_000_000;
        summary.threads = threads;
        summary.ticks.sampled = samples;
        let texts: Vec<String> =
            warnings(&summary, samples).iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, expected) in texts.iter().zip(expected) {
            assert!(text.starts_with(expected), "{text}");
        }
    };
    check(1_000, 1, 99, &[]);
    check(51, 1, 5, &[]);
    check(49, 1, 5, &["the target ran for 49.0 ms of 1.00 s"]);
    check(99, 2, 9, &["the target ran for 99.0 ms of 1.00 s"]);
    // A hundred threads share two CPUs.
    check(101, 100, 9, &[]);
    check(2, 0, 0, &["no samples", "the target ran for 2.00 ms of 1.00 s"]);
}

#[test]
fn the_other_mode_comes_with_its_command_line() {
    let check = |words: &[&str], expected| {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(in_mode(&words, Mode::OffCpu), expected);
    };
    check(&["wingbeat", "profile", "-p", "7"], "wingbeat profile --mode off-cpu -p 7");
    check(
        &["/bin/wingbeat", "-q", "profile", "--", "sh", "-c", "profile it's; a"],
        r"/bin/wingbeat -q profile --mode off-cpu -- sh -c 'profile it'\''s; a'",
    );
    check(&["wingbeat", "profile", ""], "wingbeat profile --mode off-cpu ''");
}

/// `expected` is the only warning, or empty for none.
fn check_blocks(mode: Mode, change: fn(&mut OffCpu), is_failure: bool, expected: &str) {
    let (mut summary, mut off_cpu) = blocked(mode);
    change(&mut off_cpu);
    summary.off_cpu = Some(off_cpu);
    let samples = if mode == Mode::OffCpu { 0 } else { 99 };
    let found = warnings(&summary, samples);
    let texts: Vec<String> = found.iter().map(ProfileWarning::to_string).collect();
    assert_eq!(texts.join("\n"), expected);
    assert_eq!(found.iter().any(ProfileWarning::is_failure), is_failure);
}

#[test]
fn accounts_of_blocks_give_warnings() {
    let check = check_blocks;
    check(Mode::OffCpu, |_| (), false, "");
    check(Mode::Wall, |it| it.switches = Switches::default(), false, "");
    check(
        Mode::OffCpu,
        |it| it.switches = Switches::default(),
        true,
        "no thread of the target left the CPU, so nothing was written: it ran all the time; use \
         --mode on-cpu to see where",
    );
    check(
        Mode::OffCpu,
        |it| {
            it.switches.reported = 0;
            it.switches.below_limit = 1_000;
            it.switches.below_limit_ns = 700_000;
        },
        false,
        "all 1000 blocks were shorter than 1.00 µs (700 µs in total): the target ran nearly all the \
         time; use --mode on-cpu to see where, or a shorter --min-block to see the blocks",
    );
    check(
        Mode::Wall,
        |it| it.switches.lost = BTreeMap::from([("buffer_full", 20), ("forgotten", 1)]),
        false,
        "21 of 1000 blocks (2.1 %) were lost, most because the buffer was full: times off the CPU \
         are too small; use a larger --buffer-size or a longer --min-block",
    );
    check(
        Mode::OffCpu,
        |it| it.stacks_taken.missing = 5,
        false,
        "5 of 1000 blocks (0.50 %) lack a part of their stack, because the buffer was full; use a \
         larger --buffer-size or a longer --min-block",
    );
    check(
        Mode::OffCpu,
        |it| it.stacks_taken.wrong = 2,
        false,
        "2.0 % of reused stacks failed the spot check (2 of 100): outer callers may be wrong",
    );
    check(
        Mode::Wall,
        |it| it.threads_off = 3,
        false,
        "the times of 3 of 0 threads differ from their elapsed time by more than 1 %: some of their \
         blocks are missing or counted twice",
    );
    check(
        Mode::OffCpu,
        |it| it.idle_hidden = 1,
        true,
        "1 thread slept the whole time: --hide-idle hid it, so nothing was written; \
         record without it",
    );
}

#[test]
fn files_with_names_that_were_not_believed() {
    let file = |pid| Refused {
        pid,
        path: format!("/tmp/perf-{pid}.map"),
        reason: "it is a symbolic link".to_owned(),
    };
    let check = |pids: &[u32], expected: &[&str]| {
        let mut summary = summary();
        summary.jit.refused = pids.iter().copied().map(file).collect();
        let texts: Vec<String> =
            warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts, expected);
    };
    check(&[], &[]);
    check(
        &[7],
        &["/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link: code of its JIT \
           compiler has no names; make it a regular file that belongs to the user of the process"],
    );
    check(
        &[7, 8],
        &["/tmp/perf-7.map of PID 7 was not used, because it is a symbolic link (and 1 more): \
           code of its JIT compiler has no names; make it a regular file that belongs to the user of \
           the process"],
    );
}

#[test]
fn debug_information_that_could_not_be_had() {
    let asked = |path: &str, error: Option<DownloadError>| Asked {
        path: path.to_owned(),
        build_id: BuildId::new(&[1]).expect("a build id"),
        outcome: if error.is_some() { Outcome::Failed } else { Outcome::NotFound },
        error,
    };
    let check = |files: Vec<Asked>, expected: &[&str]| {
        let mut summary = summary();
        summary.debuginfod = Some(Account { bytes: 0, files });
        let texts: Vec<String> =
            warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts, expected);
    };
    let late = || Some(DownloadError::TimeIsUp { limit_s: 30 });
    check(vec![asked("/lib/a.so", None)], &[]);
    check(
        vec![asked("/lib/a.so", None), asked("/lib/b.so", late())],
        &[
            "debug information of b.so was not downloaded, because the 30 s for downloads were over: \
           functions that it does not export appear as addresses, and all lack source lines; record \
           again with a larger DEBUGINFOD_MAXTIME, in seconds; what was downloaded is kept",
        ],
    );
    let server = "https://a".to_owned();
    check(
        vec![
            asked("c", Some(DownloadError::Status { server, status: 500 })),
            asked("/lib/b.so", late()),
        ],
        &[
            "debug information of c (and 1 more) was not downloaded, because https://a answered with \
           status 500: functions that it does not export appear as addresses, and all lack source \
           lines; check the address, try another server, or record again later",
        ],
    );
}

#[test]
fn processes_whose_code_has_no_names() {
    let process = |pid, runtime, samples, nameless| Nameless {
        pid,
        process: "MainThread".to_owned(),
        runtime,
        samples,
        nameless,
    };
    let check = |processes: &[Nameless], refused: &[u32], expected: &[(&str, &str)]| {
        let mut summary = summary();
        summary.jit.nameless = processes.to_vec();
        summary.jit.refused = refused
            .iter()
            .map(|&pid| Refused { pid, path: String::new(), reason: String::new() })
            .collect();
        let texts: Vec<String> = warnings(&summary, 99)
            .iter()
            .filter(|warning| matches!(warning, ProfileWarning::NamesMissing { .. }))
            .map(ProfileWarning::to_string)
            .collect();
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, (start, end)) in texts.iter().zip(expected) {
            assert!(text.starts_with(start) && text.ends_with(end), "{text}");
        }
    };
    let node = Some(Runtime::Node);
    check(&[process(7, node, 100, 20)], &[], &[]);
    check(&[process(7, node, 9, 9)], &[], &[]);
    check(&[process(7, node, 100, 21)], &[7], &[]);
    check(
        &[process(7, node, 100, 21)],
        &[8],
        &[(
            "21 % of the samples of MainThread (PID 7) contain code of a JIT compiler without names: \
             all of it appears as one function, [anon]; start Node with --perf-basic-prof",
            "for functions that it interprets",
        )],
    );
    check(
        &[
            process(7, None, 100, 90),
            process(8, node, 100, 80),
            process(9, node, 100, 70),
            process(6, Some(Runtime::Python), 100, 60),
            process(5, Some(Runtime::Java), 100, 50),
        ],
        &[],
        &[
            ("90 % of the samples of MainThread (PID 7) contain", "most have a flag for it"),
            ("80 % of the samples of MainThread (PID 8) (and 1 more) contain", "interprets"),
            ("60 %", "start Python (3.12 or later) with -X perf"),
            ("50 %", "-XX:+PreserveFramePointer"),
        ],
    );
}

#[test]
fn tables_that_find_no_room_are_reported_if_it_matters() {
    let check = |tables: Option<(u64, u64, u64)>, copied, cut, expected: &str| {
        let mut summary = summary();
        summary.stacks.complete = 99 - cut;
        summary.stacks.broken = cut;
        summary.stacks.broken_by_reason = BTreeMap::from([("no_table_yet", cut)]);
        let tables = tables.map(|(mib, refused, evicted)| TableCounts {
            limit_bytes: mib << 20,
            refused,
            evicted,
            ..TableCounts::default()
        });
        summary.unwind = UnwindCounts { mode: "auto", tables, copied };
        let texts: Vec<String> =
            warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.join("\n"), expected);
    };
    check(None, 0, 0, "");
    check(Some((1, 0, 0)), 99, 0, "");
    check(Some((1, 1, 1)), 4, 0, "");
    check(
        Some((1, 1, 2)),
        33,
        0,
        "the unwind tables did not fit into 1M: 1 file found no room, and tables made room for \
         others 2 times: 33.3 % of the stacks were copied instead, which costs time; use a larger \
         --unwind-memory",
    );
    check(
        Some((64, 0, 1)),
        200,
        3,
        "the unwind tables did not fit into 64M: tables made room for others 1 time: 100 % of the stacks were copied instead, which costs time, and 3 are cut where \
         their copy ends; record fewer processes",
    );
    check(Some((64, 0, 0)), 33, 4, "");
    check(
        Some((64, 0, 0)),
        33,
        5,
        "5.1 % of the stacks met code whose unwind table was not built yet, and their copies did not fit \
         into the ring buffer: callers are missing there; use a larger --buffer-size, such as 64M, or \
         record for longer: tables stay once they are built",
    );
}

#[test]
fn what_fills_the_buffer_is_to_be_made_less() {
    let check = |mode, expected: &str| {
        let (mut summary, off_cpu) = blocked(mode);
        summary.off_cpu = mode.blocks().then_some(off_cpu);
        summary.ticks.lost = 1;
        let texts: Vec<String> =
            warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts.iter().all(|text| text.ends_with(expected)), "{texts:?}");
    };
    check(Mode::OnCpu, "a larger --buffer-size or a lower --frequency");
    check(Mode::OffCpu, "a larger --buffer-size or a longer --min-block");
    check(Mode::Wall, "a larger --buffer-size or a longer --min-block");
}

#[test]
fn advice_fits_what_broke_or_was_interpreted() {
    let texts = |change: &dyn Fn(&mut Summary)| -> Vec<String> {
        let mut summary = summary();
        summary.stacks.complete = 99;
        change(&mut summary);
        warnings(&summary, 99).iter().map(ProfileWarning::to_string).collect()
    };
    let broken = |place, runtime, nameless: u64| {
        texts(&|summary| {
            summary.stacks.complete = 19;
            summary.stacks.broken = 80;
            let (reason, file) = (BrokenReason::NoFramePointer.name(), "a".to_owned());
            summary.stacks.broken_by_file = vec![BrokenIn { reason, file, count: 80, place }];
            summary.jit.unframed = runtime;
            let process = Nameless { runtime, samples: 99, nameless, ..Nameless::default() };
            summary.jit.nameless = vec![process];
        })
    };
    let check = |texts: Vec<String>, expected: &[(&str, &str)]| {
        assert_eq!(texts.len(), expected.len(), "{texts:?}");
        for (text, (start, end)) in texts.iter().zip(expected) {
            assert!(text.starts_with(start) && text.ends_with(end), "{text}");
        }
    };
    let java = Some(Runtime::Java);
    let with_names = "80.8 % of the stacks end too early, in code that was made while it ran";
    let rebuild = "for C and C++";
    check(broken(BrokenPlace::Build, None, 0), &[("80.8 % of the stacks end too early", rebuild)]);
    // The file cannot be built, its kind is unknown, or no information is missing.
    check(broken(BrokenPlace::Memory, java, 0), &[(with_names, "-XX:+PreserveFramePointer")]);
    check(broken(BrokenPlace::Memory, None, 0), &[(with_names, "a flag for frame pointers")]);
    check(broken(BrokenPlace::Unknown, None, 0), &[]);
    check(broken(BrokenPlace::NewStack, None, 0), &[]);
    // One warning covers both.
    check(
        broken(BrokenPlace::Memory, java, 90),
        &[("90.9 % of the samples", "PreserveFramePointer")],
    );

    let interpreted = |runtime, version, interpreted| {
        texts(&|summary| {
            summary.jit.interpreted = vec![Interpreted {
                pid: 7,
                process: "p".to_owned(),
                runtime,
                version,
                function: "loop".to_owned(),
                samples: 99,
                interpreted,
            }];
        })
    };
    let begins = "60.6 % of the samples of p (PID 7) are of functions that ";
    let says =
        |runtime, version, end: &str| check(interpreted(runtime, version, 60), &[(begins, end)]);
    says(Runtime::Python, Some((3, 11)), "Python 3.12 and later tells them with -X perf");
    says(Runtime::Python, Some((3, 12)), "py-spy record --pid 7");
    says(
        Runtime::Ruby,
        Some((3, 1)),
        "Ruby 3.3 and later names what it compiles with --yjit --yjit-perf",
    );
    says(Runtime::Php, None, "opcache.jit_debug=0x10");
    says(Runtime::Perl, None, "perl -d:NYTProf");
    says(Runtime::Erlang, None, "+JPperf true");
    says(Runtime::LuaJit, None, "luajit -jp");
    check(interpreted(Runtime::Perl, None, 40), &[]);
    let unopened = texts(&|summary| summary.files_unopened = 3);
    check(unopened, &[("3 files could not be opened, because", "or record fewer processes")]);
}
