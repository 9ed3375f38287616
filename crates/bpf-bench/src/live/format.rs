//! Formats results as text: a human-readable table, complete JSON, Bencher Metric Format, CSV.
//!
//! Pure: no kernel, no clock, no files. The same report gives the same text.

mod human;
#[cfg(test)]
pub(super) mod tests;

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
