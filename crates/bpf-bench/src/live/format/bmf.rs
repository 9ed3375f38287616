//! Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use crate::live::{LiveReport, ProgramReport};

/// Writes the programs that ran: mean time (`latency`, ns, with the bounds of its interval if
/// known), runs per second (`throughput`) and runs (`runs`); if single runs were timed, those too.
pub(super) fn write(report: &LiveReport) -> Result<String, serde_json::Error> {
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
