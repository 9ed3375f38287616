//! Measurements and output formats of `wingbeat bench`.

use std::{
    fs,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use wingbeat_bpf_loader::code::{Insn, op};
use wingbeat_bpf_testing::object::typed::{Program, SOURCE};

use crate::{
    bench::support::{
        Folder, LOOP_LINE, NEVER_LINE, PASS, PROGRAM, QUICK, TURNS, executed, json, probe, started,
        turn, turn_with_object,
    },
    ran::{stopped, wait_for},
};

#[test]
fn the_forms_of_the_result() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let arguments = ["bench", "looping.o", "--time", "2s", "--format", "json", "--allow-stats"];
    let report = folder.run(&arguments).ended_with(0).json();
    assert_eq!((&report["is_interrupted"], &report["failures"]), (&false.into(), &json("[]")));
    let [case] = &report["cases"].as_array().expect("cases")[..] else { panic!("one: {report}") };
    assert_eq!((&case["program"], &case["type"]), (&PROGRAM.into(), &"xdp".into()));
    assert_eq!(case["outcome"]["return_value"], PASS);
    assert_eq!(case["counts"]["measured"]["instructions"], executed(TURNS));
    let latency = &case["latency"]["measured"];
    let ns = |name: &str| latency[name].as_f64().unwrap_or_else(|| panic!("{name}: {latency}"));
    assert!(ns("lower_ns") <= ns("median_ns") && ns("median_ns") <= ns("upper_ns"));
    // Iterations of two instructions: no CPU does ten of them in a nanosecond.
    assert!(ns("median_ns") > f64::from(TURNS) / 10.0, "{latency}");
    let single = &case["distribution"]["measured"];
    assert!(single["p50_ns"].as_f64() <= single["p99_ns"].as_f64(), "{single}");
    let written = |format: &str, more: &[&str]| {
        folder.run(&[&QUICK[..], &["--format", format], more].concat()).ended_with(0)
    };
    written("human", &["--expect", "2"]).prints(PROGRAM).prints("XDP_PASS");
    let metrics = written("bmf", &["--expect", "XDP_PASS"]).json();
    let instructions = &metrics[PROGRAM]["instructions"]["value"];
    assert_eq!(instructions.as_f64(), Some(executed(TURNS) as f64));
    written("csv", &["-o", "result.csv"]).prints_nothing();
    assert!(folder.text("result.csv").contains("\nlooping.o,"));
    // The same value, of another type.
    let found = folder.run(&[&QUICK, &["--expect", "TC_ACT_SHOT"][..]].concat()).ended_with(1);
    let expected = "returned XDP_PASS (2), but TC_ACT_SHOT (2) was expected";
    assert!(found.said().contains(expected), "{found}");
}

#[test]
fn what_cannot_be_run_has_the_figures_of_the_verifier() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("probe.o", probe(true));
    // Nothing was measured, which is a failure.
    let bench = |more: &[&str]| folder.run(&[&["bench", "probe.o"], more].concat()).ended_with(1);
    for (name, told) in [(&[][..], "skipped"), (&["on_event"], "failures")] {
        let report = bench(&[name, &["--format", "json"]].concat()).json();
        let found = &report["verified"][0];
        assert_eq!((&found["name"], &found["type"]), (&"on_event".into(), &"kprobe".into()));
        assert_eq!(found["verifier"]["processed_instructions"], 3);
        assert!(found["size"]["xlated_bytes"].as_u64() >= Some(24), "{found}");
        assert_eq!(report[told][0]["name"], "on_event", "{report}");
        assert_eq!(report["cases"], json("[]"));
    }
    let said = bench(&[]).said();
    assert!(said.contains("not run: on_event: only its event runs such a program"), "{said}");
}

#[test]
fn what_cannot_be_loaded_for_its_event_is_told() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    let object = Program {
        name: "on_entry",
        section: "fentry/no_such_function",
        insns: &[Insn::new(op::ALU64 | op::MOV, 0, 0, 0, 0), Insn::new(op::EXIT, 0, 0, 0, 0)],
        lines: &[],
        statics: &[],
    };
    folder.file("entry.o", object.object());
    let said = folder.run(&["bench", "entry.o"]).ended_with(1).said();
    assert!(said.contains("not run: on_entry: ") && said.contains("no_such_function"), "{said}");
}

#[test]
fn what_the_verifier_rejects_is_told_with_line_and_log() {
    let Some(_turn) = turn() else { return };
    let folder = Folder::new();
    folder.file("probe.o", probe(false));
    let bench = |more: &[&str]| folder.run(&[&["bench", "probe.o"], more].concat()).ended_with(1);
    let report = bench(&["--format", "json"]).json();
    let failure = &report["failures"][0];
    assert_eq!(failure["is_rejected"], true, "{report}");
    assert_eq!(failure["verifier"]["processed_instructions"], 2, "{report}");
    let brief = bench(&[]);
    let said = brief.said();
    assert!(said.contains("the verifier rejects on_event: R1 invalid mem access"), "{said}");
    // Linux 6.12 appends the file name, 6.1 does not.
    assert!(said.contains("at: return *first;"), "{said}");
    // Only the full log has the statistics.
    assert!(!said.contains("processed 2 insns"), "{said}");
    let whole = bench(&["-v"]).stderr;
    assert!(whole.contains("the verifier's log of on_event:\n"), "{whole}");
    assert!(whole.contains("processed 2 insns"), "{whole}");
}

#[test]
fn each_packet_of_a_capture_is_an_input() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    // One IPv6 packet, one IPv4.
    let packets = [[0x86, 0xdd], [8, 0]].map(|r#type| {
        let mut packet = [0; 64];
        packet[12..14].copy_from_slice(&r#type);
        packet
    });
    folder.file("two.pcap", capture(&packets));
    let arguments = ["bench", "looping.o", "--input", "two.pcap", "--time", "5s", "--allow-stats"];
    let report = folder.run(&[&arguments[..], &["--format", "json"]].concat()).ended_with(0).json();
    let cases = report["cases"].as_array().expect("cases");
    let found: Vec<_> = cases
        .iter()
        .map(|case| {
            let counted = case["counts"]["measured"]["instructions"].as_u64();
            (case["outcome"]["return_value"].as_u64(), counted)
        })
        .collect();
    let ipv4 = executed(TURNS);
    assert_eq!(found, [(Some(0), Some(ipv4 + 1)), (Some(2), Some(ipv4))], "{report}");
    let first = ["annotate", "looping.o", "--input", "two.pcap", "--packets", "1"];
    let said = folder.run(&first).ended_with(0).said();
    let told = "two.pcap: only the first 1 packet of the file is used, 1 is left out";
    assert!(said.contains(told) && said.contains("--packets"), "{said}");
    assert!(said.contains("input two#1, returned 0"), "{said}");
}

#[test]
fn a_packet_that_is_refused_leaves_the_others() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    folder.file("short.bin", [8; 5]);
    folder.file("whole.bin", [8; 64]);
    let inputs = ["annotate", "looping.o", "--input", "short.bin", "--input", "whole.bin"];
    let said = folder.run(&inputs).ended_with(0).said();
    assert!(said.contains("input short is left out: the kernel refuses the input"), "{said}");
    assert!(said.contains("input whole, returned 2"), "{said}");
}

/// An Ethernet capture in the classic pcap format.
fn capture(packets: &[[u8; 64]]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, 1]);
    for packet in packets {
        file.extend(words(&[0, 0, 64, 64]));
        file.extend(packet);
    }
    file
}

#[test]
fn a_signal_ends_it_with_what_was_measured() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let arguments = ["bench", "looping.o", "--time", "60s", "--format", "json", "--allow-stats"];
    let child = started(folder.wingbeat(&arguments));
    wait_for_handler(&child);
    // The end of the first batch is not observable. It takes a tenth of this.
    thread::sleep(Duration::from_secs(6));
    let signalled = Instant::now();
    let found = stopped(child, Signal::INT);
    let took = signalled.elapsed();
    assert!(took < Duration::from_secs(10), "it ended {took:?} after the signal");
    assert!(matches!(found.code, Some(0 | 1)), "{:?}: {}", found.code, found.stderr);
    let report = found.json();
    assert_eq!(report["is_interrupted"], true, "{report}");
    let case = &report["cases"][0];
    assert_eq!(case["program"], PROGRAM, "{report}");
    assert!(case["latency"]["measured"]["batches"].as_u64().is_some_and(|it| it > 0), "{report}");
}

/// Waits until a SIGINT (2) handler is installed.
fn wait_for_handler(child: &Child) {
    let is_caught = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
        Some(u64::from_str_radix(mask, 16).ok()? & 1 << 1 != 0)
    };
    wait_for("a handler of SIGINT", || is_caught() == Some(true));
}

// `wingbeat annotate`.

#[test]
fn lines_and_blocks_add_up() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let found = folder.run(&["annotate", "looping.o", "--json"]).ended_with(0).json();
    assert_eq!(found["instructions"], executed(TURNS));
    assert_eq!(found["inputs"], serde_json::json!([["default", PASS]]));
    let function = &found["functions"][0];
    assert_eq!((&function["name"], &function["calls"]), (&PROGRAM.into(), &1.into()));
    let lines = function["lines"].as_array().expect("lines");
    let sum: u64 = lines.iter().filter_map(|line| line["instructions"].as_u64()).sum();
    assert_eq!(sum, executed(TURNS));
    let executions = |number: u32| {
        let line = lines.iter().find(|line| line["line"] == number);
        line.map(|line| line["executions"].as_u64().expect("a number"))
    };
    assert_eq!(executions(LOOP_LINE), Some(u64::from(TURNS)));
    assert_eq!(executions(NEVER_LINE), Some(0));
    let text = folder.run(&["annotate", "looping.o", PROGRAM, "--bytecode"]).ended_with(0).stdout;
    let never = text.lines().find(|line| line.contains("verdict = XDP_ABORTED;"));
    assert!(never.is_some_and(|line| line.contains("never")), "{text}");
    assert!(text.contains("r6 += -1"), "{text}");
}

#[test]
fn the_files_that_it_writes() {
    let Some((_turn, folder)) = turn_with_object() else { return };
    let files = ["-o", "x.lcov", "-o", "x.svg", "-o", "x.folded"];
    let found = folder.run(&[&["annotate", "looping.o"], &files[..]].concat()).ended_with(0);
    assert!(found.stdout.is_empty(), "{}", found.stdout);

    let coverage = folder.text("x.lcov");
    let lines = [format!("SF:{SOURCE}"), format!("DA:{LOOP_LINE},{TURNS}")];
    for line in lines {
        assert!(coverage.lines().any(|it| it == line), "{line}: {coverage}");
    }
    let stacks = folder.text("x.folded");
    let counts = stacks.lines().map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
    assert_eq!(counts.sum::<Option<u64>>(), Some(executed(TURNS)), "{stacks}");
    let picture = folder.text("x.svg");
    assert!(picture.contains(PROGRAM) && picture.trim_end().ends_with("</svg>"), "{picture}");
}
