//! Formats results as text: a human-readable table, complete JSON, Bencher Metric Format, CSV.
//!
//! Pure: no kernel, no clock, no files. The same report gives the same text.

mod human;
use std::{
    collections::{BTreeMap, HashMap},
    io,
};

use serde_json::json;

use super::{LiveReport, ProgramReport, SingleRuns};
use crate::report::{real, whole};

pub use crate::report::Format;
pub use human::{owners, rate};

impl Format {
    /// Writes `report` in this format, with a trailing line break.
    pub fn write(self, report: &LiveReport) -> io::Result<String> {
        match self {
            Self::Human => Ok(human::write(report)),
            Self::Json => Ok(serde_json::to_string_pretty(report)? + "\n"),
            Self::Bmf => Ok(bmf(report)?),
            Self::Csv => String::from_utf8(csv(report)?).map_err(io::Error::other),
        }
    }
}

/// Bencher Metric Format of the programs that ran: mean time (`latency`, ns, with the bounds of its interval if
/// known), runs per second (`throughput`) and runs (`runs`); if single runs were timed, those too.
fn bmf(report: &LiveReport) -> Result<String, serde_json::Error> {
    let mut names: HashMap<&str, u32> = HashMap::new();
    for program in &report.programs {
        *names.entry(&program.name).or_default() += 1;
    }
    let mut benchmarks = BTreeMap::new();
    for program in &report.programs {
        let (Some(latency), Some(throughput), Some(runs)) =
            (program.time_per_run_ns, program.runs_per_s, program.runs)
        else {
            continue;
        };
        let mut latency = json!({ "value": latency });
        if let Some(interval) = program.time_per_run_interval {
            latency["lower_value"] = interval.lower_ns.into();
            latency["upper_value"] = interval.upper_ns.into();
        }
        let mut measures = json!({
            "latency": latency,
            "throughput": { "value": throughput },
            "runs": { "value": runs as f64 },
        });
        for (name, value) in of_single_runs(program) {
            measures[name] = json!({ "value": value });
        }
        let is_shared = names.get(program.name.as_str()).is_some_and(|&count| count > 1);
        benchmarks.insert(benchmark(program, is_shared), measures);
    }
    serde_json::to_string_pretty(&benchmarks).map(|json| json + "\n")
}

/// Percentiles, maximum time and perf counts per run, as far as known.
fn of_single_runs(program: &ProgramReport) -> impl Iterator<Item = (String, f64)> {
    let single = program.single_runs.as_ref();
    let times = [
        ("latency-p50", single.and_then(|single| single.p50_ns)),
        ("latency-p90", single.and_then(|single| single.p90_ns)),
        ("latency-p99", single.and_then(|single| single.p99_ns)),
        ("latency-p999", single.and_then(|single| single.p999_ns)),
        ("latency-max", single.map(|single| single.max_ns as f64)),
    ];
    let times = times.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let counters = program.counters.iter();
    times.chain(counters.filter_map(|one| Some((one.event.clone(), one.per_run?))))
}

/// The program's name. If it is shared or empty, the id makes it unique; ids differ from load to
/// load, so such benchmarks have no history.
fn benchmark(program: &ProgramReport, is_shared: bool) -> String {
    match program.name.as_str() {
        "" => format!("id-{}", program.id),
        name if is_shared => format!("{name}#{}", program.id),
        name => name.to_owned(),
    }
}

const HEADER: &str = "id,type,name,tag,owner_pids,owner_names,runs,run_time_ns,runs_per_s,\
    time_per_run_ns,time_per_run_net_ns,time_per_run_lower_ns,time_per_run_upper_ns,cpu_percent,\
    recursion_misses";

/// Additional columns for timed single runs.
const SINGLE_RUNS: &str = "latency_p50_ns,latency_p90_ns,latency_p99_ns,latency_p999_ns,\
    latency_max_ns,latency_min_ns,latency_p50_net_ns,untimed_recursion,untimed_displaced,\
    runs_beyond_bins";

/// CSV: a row per program, with empty fields for unknown values. Timed single runs add columns, and each counter adds three.
fn csv(report: &LiveReport) -> csv::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut header: Vec<String> = HEADER.split(',').map(str::to_owned).collect();
    if let Some(empty) = &report.empty {
        header.extend(SINGLE_RUNS.split(',').map(str::to_owned));
        for counter in &empty.counters {
            let name = counter.event.replace('-', "_");
            header.extend(["total", "per_run", "per_run_net"].map(|what| format!("{name}_{what}")));
        }
    }
    writer.write_record(header)?;
    for program in &report.programs {
        let mut fields = row(program).to_vec();
        if let Some(empty) = &report.empty {
            fields.extend(single_runs(program));
            for event in empty.counters.iter().map(|counter| &counter.event) {
                let counter = program.counters.iter().find(|counter| counter.event == *event);
                let figures = counter.map(|one| [one.total, one.per_run, one.net_per_run]);
                fields.extend(figures.unwrap_or_default().map(real));
            }
        }
        writer.write_record(fields)?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn single_runs(program: &ProgramReport) -> [String; 10] {
    let single = program.single_runs.as_ref();
    let time = |of: fn(&SingleRuns) -> Option<f64>| real(single.and_then(of));
    let count = |of: fn(&SingleRuns) -> u64| whole(single.map(of));
    [
        time(|single| single.p50_ns),
        time(|single| single.p90_ns),
        time(|single| single.p99_ns),
        time(|single| single.p999_ns),
        count(|single| single.max_ns),
        count(|single| single.min_ns),
        time(|single| single.net_p50_ns),
        count(|single| single.untimed.recursion),
        count(|single| single.untimed.displaced),
        count(|single| single.runs_beyond_bins),
    ]
}

fn row(program: &ProgramReport) -> [String; 15] {
    let pids: Vec<_> = program.owners.iter().map(|owner| owner.pid.to_string()).collect();
    let names: Vec<_> = program.owners.iter().map(|owner| owner.name.as_str()).collect();
    let interval = program.time_per_run_interval;
    [
        program.id.to_string(),
        program.r#type.clone(),
        program.name.clone(),
        program.tag.clone(),
        pids.join(" "),
        names.join(" "),
        whole(program.runs),
        whole(program.run_time_ns),
        real(program.runs_per_s),
        real(program.time_per_run_ns),
        real(program.time_per_run_net_ns),
        real(interval.map(|interval| interval.lower_ns)),
        real(interval.map(|interval| interval.upper_ns)),
        real(program.cpu_percent),
        whole(program.recursion_misses),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;
    use wingbeat_bpf_loader::{ProgramType, program::ProgramInfo};

    use super::*;
    use crate::live::{
        Bin, CommandReport, CounterReport, EmptyRuns, LiveReport, MeanInterval, ProgramReport,
        SingleRuns, change::Rates, warning::few_runs,
    };

    /// A program that was watched for two seconds.
    pub(in crate::live) fn program(
        id: u32,
        name: &str,
        runs: u64,
        run_time_ns: u64,
    ) -> ProgramReport {
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

    /// Single runs with a median of `p50_ns`.
    pub(in crate::live) fn single_runs(runs: u64, p50_ns: f64) -> SingleRuns {
        SingleRuns {
            runs,
            p50_ns: Some(p50_ns),
            p90_ns: Some(p50_ns + 10.5),
            p99_ns: Some(3.0 * p50_ns),
            p999_ns: (runs >= 1_000).then_some(5.0 * p50_ns),
            max_ns: 12_345,
            min_ns: 30,
            mean_ns: p50_ns + 1.25,
            bin_width: 0.03125,
            bins: vec![Bin { lower_ns: 30, upper_ns: Some(31), runs }],
            ..SingleRuns::default()
        }
    }

    fn counter(event: &str, per_run: f64, net_per_run: Option<f64>) -> CounterReport {
        CounterReport {
            event: event.to_owned(),
            total: Some(900.0 * per_run),
            per_run: Some(per_run),
            net_per_run,
            runs: 900,
            running: Some(0.5),
        }
    }

    fn measured() -> LiveReport {
        let mut first = program(12, "fun_xdp_v3", 900, 95_000);
        first.single_runs = Some(SingleRuns { net_p50_ns: Some(63.4), ..single_runs(900, 103.4) });
        first.counters = vec![counter("cycles", 410.25, Some(200.25))];
        // No run has finished.
        let second: ProgramReport = program(7, "slow", 0, 0);
        let mut third = program(8, "slower", 2_000, 2_000);
        third.single_runs = Some(SingleRuns {
            p50_ns: None,
            p999_ns: None,
            runs_beyond_bins: 1_500,
            ..single_runs(2_000, 9.0)
        });
        let mut report = report(vec![first, second, third]);
        report.empty_run_ns = Some(41.25);
        report.empty = Some(EmptyRuns {
            single_runs: single_runs(40_000, 40.0),
            counters: vec![counter("cycles", 210.0, None)],
            added_ns: 120.0,
        });
        report
    }

    #[test]
    fn single_runs_for_people() {
        check(
            &measured(),
            Format::Human,
            "
id  type  name          runs  runs/s      p50  p90  p99    p99.9     max   mean  net p50  CPU %  owners
          (empty)     40,000               40   50  120      200  12,345   41.2
12  xdp   fun_xdp_v3     900     450      103  114  310        –  12,345  104.7       63  <0.01  –
 7  xdp   slow             0     0.0        –    –    –        –       –      –        –   0.00  –
 8  xdp   slower       2,000   1,000  >4.29 s   20   27  >4.29 s  12,345   10.2        –  <0.01  –

name                event     total  per run     net
(empty)             cycles  189,000   210.00       –
fun_xdp_v3 (id 12)  cycles  369,225   410.25  200.25

3 programs in 2.00 s; CPU % is of one CPU, in all <0.01 % of 2 CPUs
times of single runs in ns, tracers included: (empty) is a program that does nothing, and net p50 is without its time
percentiles are exact to 1 ns below 64 ns, above that to 3.1 %; a dash has less than one run above it
during the measurement, each run takes about 120 ns longer
counters cover the runs and the tracers; net excludes what (empty) shows
counters took turns and counted for 50 % of the time at least; totals are scaled up
",
        );
    }

    #[test]
    fn single_runs_for_spreadsheets() {
        let text = Format::Csv.write(&measured()).expect("text");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let check = |row: usize, name: &str, expected: &str| {
            let column = rows[0].iter().position(|heading| *heading == name).expect(name);
            assert_eq!(rows[row][column], expected, "{name} in {text}");
        };
        check(1, "latency_p50_ns", "103.4");
        check(1, "latency_p999_ns", "");
        check(1, "latency_max_ns", "12345");
        check(1, "latency_p50_net_ns", "63.4");
        check(1, "cycles_per_run", "410.25");
        check(1, "cycles_per_run_net", "200.25");
        check(2, "latency_p50_ns", "");
        check(3, "runs_beyond_bins", "1500");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    }

    #[test]
    fn single_runs_for_bencher() {
        let text = Format::Bmf.write(&measured()).expect("text");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let check = |pointer: &str, expected: Option<f64>| {
            let found =
                json.pointer(&format!("{pointer}/value")).and_then(serde_json::Value::as_f64);
            assert_eq!(found, expected, "{pointer} in {text}");
        };
        check("/fun_xdp_v3/latency-p50", Some(103.4));
        check("/fun_xdp_v3/latency-p999", None);
        check("/fun_xdp_v3/latency-max", Some(12_345.0));
        check("/fun_xdp_v3/cycles", Some(410.25));
        check("/slower/latency-p50", None);
    }
}
