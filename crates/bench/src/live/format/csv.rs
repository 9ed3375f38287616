//! CSV: a row per program, empty fields for what is not known.

use crate::live::{ProgramReport, Report};

const HEADER: [&str; 15] = [
    "id",
    "type",
    "name",
    "tag",
    "owner_pids",
    "owner_names",
    "runs",
    "run_time_ns",
    "runs_per_s",
    "time_per_run_ns",
    "time_per_run_net_ns",
    "time_per_run_lower_ns",
    "time_per_run_upper_ns",
    "cpu_percent",
    "recursion_misses",
];

/// Writes all programs.
pub(super) fn write(report: &Report) -> csv::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADER)?;
    for program in &report.programs {
        writer.write_record(row(program))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

fn row(program: &ProgramReport) -> [String; 15] {
    let integer =
        |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let real = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
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
        integer(program.runs),
        integer(program.run_time_ns),
        real(program.runs_per_s),
        real(program.time_per_run_ns),
        real(program.time_per_run_net_ns),
        real(interval.map(|interval| interval.lower_ns)),
        real(interval.map(|interval| interval.upper_ns)),
        real(program.cpu_percent),
        integer(program.recursion_misses),
    ]
}
