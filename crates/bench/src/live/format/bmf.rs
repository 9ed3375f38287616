//! Bencher Metric Format: `{"BENCHMARK": {"MEASURE": {"value": …}}}`.

use std::collections::{BTreeMap, HashMap};

use serde_json::json;

use crate::live::{ProgramReport, Report};

/// Writes the programs that ran: mean time (`latency`, ns, with the ends of its interval where it has
/// one), runs per second (`throughput`) and runs (`runs`).
pub(super) fn write(report: &Report) -> Result<String, serde_json::Error> {
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
        let measures = json!({
            "latency": latency,
            "throughput": { "value": throughput },
            "runs": { "value": runs as f64 },
        });
        let is_shared = names.get(program.name.as_str()).is_some_and(|&count| count > 1);
        benchmarks.insert(benchmark(program, is_shared), measures);
    }
    serde_json::to_string_pretty(&benchmarks).map(|json| json + "\n")
}

/// The program's name. When several programs share it, or there is none, the id tells them apart;
/// ids differ from load to load, so such benchmarks have no history.
fn benchmark(program: &ProgramReport, is_shared: bool) -> String {
    match program.name.as_str() {
        "" => format!("id-{}", program.id),
        name if is_shared => format!("{name}#{}", program.id),
        name => name.to_owned(),
    }
}
