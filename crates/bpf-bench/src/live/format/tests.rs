//! Golden text of all formats, for one small report.

pub(in crate::live) mod single_runs;

use serde_json::json;
use wingbeat_bpf_loader::{ProgramType, program::ProgramInfo};

use super::*;
use crate::live::{CommandReport, MeanInterval, ProgramReport, change::Rates, warning::few_runs};

/// A program that was watched for two seconds.
pub(in crate::live) fn program(id: u32, name: &str, runs: u64, run_time_ns: u64) -> ProgramReport {
    let info = ProgramInfo {
        id,
        r#type: ProgramType::XDP,
        tag: [0xa0, 1, 2, 3, 4, 5, 6, 7],
        ..ProgramInfo::default()
    };
    let rates = Rates { interval_ns: 2_000_000_000, runs, run_time_ns, recursion_misses: 0 };
    ProgramReport::new(&info, name, Some(rates), Some(25.0))
}

/// A report over two seconds on two CPUs.
pub(in crate::live) fn report(programs: Vec<ProgramReport>) -> LiveReport {
    LiveReport { empty_run_ns: Some(25.0), ..LiveReport::new(programs, 2, 2_000_000_000) }
}

fn two_programs() -> LiveReport {
    let mut first = program(12, "fun_xdp_v3", 2_000_000, 126_800_000);
    let owner =
        |pid, name: &str| wingbeat_bpf_loader::fd_holders::Owner { pid, name: name.to_owned() };
    first = first.with_holders(&[owner(812, "agent"), owner(900, "a, \"b\"\u{1b}")], &[]);
    first.attached = vec!["xdp on veth0".to_owned()];
    first.time_per_run_interval =
        Some(MeanInterval { lower_ns: 62.2, upper_ns: 64.6, confidence: 0.95, slices: 90 });
    let mut report = report(vec![first, program(7, "count_packets_by_source", 3, 900)]);
    report.command = Some(CommandReport {
        words: vec!["ping".to_owned(), "-c3".to_owned()],
        exit_code: 0,
        ended_by_itself: true,
    });
    report.warnings = vec![few_runs("count_packets_by_source (id 7)", 3)];
    report
}

fn check(report: &LiveReport, format: Format, expected: &str) {
    let found = format.write(report).expect("it can be written");
    assert_eq!(found, expected.trim_start_matches('\n'), "\n{found}");
}

#[test]
fn for_people() {
    check(
        &two_programs(),
        Format::Human,
        "
id  type   name                          runs     runs/s  ns/run  ± 95 %    net  CPU %  owners
12  xdp    fun_xdp_v3               2,000,000  1,000,000    63.4     1.2   38.4   6.34  agent (812), a, \"b\"? (900)
 7  xdp    count_packets_by_source          3        1.5   300.0       –  275.0  <0.01  –
    total                           2,000,003  1,000,002                          6.34

2 programs in 2.00 s; CPU % is of one CPU, in all 3.17 % of 2 CPUs
ns/run includes the statistics' own clock reads: an empty program shows 25.0 ns; net excludes them
± is half of the 95 % interval of the mean, from its 90 slices; it does not describe single runs
ping -c3 ended with exit code 0
",
    );
}

#[test]
fn nothing_is_loaded() {
    check(&report(Vec::new()), Format::Human, "no eBPF program is loaded\n");
}

#[test]
fn for_bencher() {
    let text = Format::Bmf.write(&two_programs()).expect("text");
    let value = |number: f64| json!({ "value": number });
    let expected = json!({
        "count_packets_by_source": {
            "latency": value(300.0), "runs": value(3.0), "throughput": value(1.5),
        },
        "fun_xdp_v3": {
            "latency": { "lower_value": 62.2, "upper_value": 64.6, "value": 63.4 },
            "runs": value(2e6),
            "throughput": value(1e6),
        },
    });
    assert_eq!(text, serde_json::to_string_pretty(&expected).expect("JSON") + "\n");
}

#[test]
fn benchmarks_of_one_name_are_told_apart_and_idle_ones_left_out() {
    let programs = vec![
        program(3, "p", 1, 10),
        program(4, "p", 1, 10),
        program(5, "", 1, 10),
        program(6, "q", 0, 0),
    ];
    let text = Format::Bmf.write(&report(programs)).expect("text");
    let found: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(&text).expect("JSON");
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["id-5", "p#3", "p#4"]);
}

#[test]
fn for_spreadsheets() {
    check(
        &two_programs(),
        Format::Csv,
        "
id,type,name,tag,owner_pids,owner_names,runs,run_time_ns,runs_per_s,time_per_run_ns,time_per_run_net_ns,time_per_run_lower_ns,time_per_run_upper_ns,cpu_percent,recursion_misses
12,xdp,fun_xdp_v3,a001020304050607,812 900,\"agent a, \"\"b\"\"\u{1b}\",2000000,126800000,1000000,63.4,38.4,62.2,64.6,6.34,0
7,xdp,count_packets_by_source,a001020304050607,,,3,900,1.5,300,275,,,0.000045,0
",
    );
}

#[test]
fn for_scripts() {
    let text = Format::Json.write(&two_programs()).expect("text");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let check = |pointer: &str, expected: serde_json::Value| {
        assert_eq!(json.pointer(pointer), Some(&expected), "{pointer} in {text}");
    };
    check("/schema_version", 2.into());
    check("/duration_ns", 2_000_000_000_u64.into());
    check("/ended_by", "time".into());
    check("/empty_run_ns", 25.0.into());
    check("/programs/0/id", 12.into());
    check("/programs/0/type", "xdp".into());
    check("/programs/0/owners/0/pid", 812.into());
    check("/programs/0/attached/0", "xdp on veth0".into());
    check("/programs/0/outcome", "ran".into());
    check("/programs/0/time_per_run_interval/slices", 90.into());
    check("/programs/1/time_per_run_interval", serde_json::Value::Null);
    check("/programs/1/runs", 3.into());
    check("/total/runs", 2_000_003.into());
    check("/programs/0/cpu_share", 0.0634.into());
    check("/command/exit_code", 0.into());
    check("/warnings/0/code", "few-runs".into());
}

#[test]
fn what_is_not_known_is_not_zero() {
    let info = ProgramInfo { id: 1, r#type: ProgramType::XDP, ..ProgramInfo::default() };
    let unknown = ProgramReport::new(&info, "p", None, Some(25.0));
    let text = Format::Human.write(&report(vec![unknown])).expect("text");
    assert!(text.contains(" 1  xdp    p        –       –       –    –      –  –"), "{text}");
}
