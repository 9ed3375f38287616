//! CSV: a row per program, empty fields for unknown values.

use crate::{
    live::{LiveReport, ProgramReport, SingleRuns},
    report::{real, whole},
};

const HEADER: &str = "id,type,name,tag,owner_pids,owner_names,runs,run_time_ns,runs_per_s,\
    time_per_run_ns,time_per_run_net_ns,time_per_run_lower_ns,time_per_run_upper_ns,cpu_percent,\
    recursion_misses";

/// Additional columns for timed single runs.
const SINGLE_RUNS: &str = "latency_p50_ns,latency_p90_ns,latency_p99_ns,latency_p999_ns,\
    latency_max_ns,latency_min_ns,latency_p50_net_ns,untimed_recursion,untimed_displaced,\
    runs_beyond_bins";

/// Writes all programs. Timed single runs add columns, and each counter adds three.
pub(super) fn write(report: &LiveReport) -> csv::Result<Vec<u8>> {
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
