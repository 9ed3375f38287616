//! CSV: a row per case. veristat's columns first, by its names and in its order, then our own.
//!
//! Names and order are those of `stat_defs` and `default_csv_output_spec` in
//! tools/testing/selftests/bpf/veristat.c, version 0.5.1 (Linux 6.15). Two of its columns are not
//! there, `attach_type` and `mem_peak`, which a result does not hold.

use std::{io, path::Path};

use crate::result::{Case, Failure, Report};

/// veristat's columns.
const VERISTAT_COLUMNS: [&str; 13] = [
    "file_name",
    "prog_name",
    "verdict",
    "duration",
    "total_insns",
    "total_states",
    "peak_states",
    "max_states_per_insn",
    "max_mark_read_len",
    "prog_size",
    "prog_size_jited",
    "prog_type",
    "stack_depth",
];

/// Our own.
const OWN_COLUMNS: [&str; 9] = [
    "latency_ns",
    "latency_lower_ns",
    "latency_upper_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "instructions",
    "input",
    "return_value",
    "not_measured",
];

/// Writes cases and, below them, what was not measured: with the reason, and without a verdict, since
/// not only the verifier stands in the way. What is not known is empty.
///
/// # Errors
///
/// Those of the writer, which have no cause here.
pub fn csv(report: &Report) -> io::Result<String> {
    let file = file_name(&report.object);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(VERISTAT_COLUMNS.iter().chain(&OWN_COLUMNS))?;
    for case in &report.cases {
        writer.write_record(veristat_cells(&file, case).iter().chain(&own_cells(case)))?;
    }
    for failure in report.failures.iter().chain(&report.skipped) {
        writer.write_record(unmeasured_cells(&file, failure))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// As veristat writes it: without folders.
pub(super) fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn veristat_cells(file: &str, case: &Case) -> [String; 13] {
    let verifier = &case.verifier;
    [
        file.to_owned(),
        case.program.clone(),
        "success".to_owned(),
        whole(verifier.duration_us),
        whole(verifier.processed_instructions),
        whole(verifier.total_states),
        whole(verifier.peak_states),
        whole(verifier.max_states_per_instruction),
        whole(verifier.mark_read),
        case.size.object_instructions.to_string(),
        case.size.jited_bytes.to_string(),
        case.r#type.clone(),
        verifier.stack_depth_bytes.to_string(),
    ]
}

fn own_cells(case: &Case) -> [String; 9] {
    let latency = case.latency.measured();
    let single = case.distribution.measured();
    [
        real(latency.map(|latency| latency.median_ns)),
        real(latency.map(|latency| latency.lower_ns)),
        real(latency.map(|latency| latency.upper_ns)),
        real(single.map(|single| single.p50_ns)),
        real(single.map(|single| single.p99_ns)),
        whole(case.counts.measured().map(|counts| counts.instructions)),
        case.input.clone(),
        case.outcome.return_value.to_string(),
        String::new(),
    ]
}

/// The name of a failure is that of its program, with its input where there are several.
fn unmeasured_cells(file: &str, failure: &Failure) -> Vec<String> {
    let (program, input) = failure.name.split_once('/').unwrap_or((&failure.name, ""));
    let mut cells = vec![String::new(); VERISTAT_COLUMNS.len() + OWN_COLUMNS.len()];
    let mut set = |column: &str, text: &str| {
        let mut names = VERISTAT_COLUMNS.iter().chain(&OWN_COLUMNS);
        let place = names.position(|name| *name == column);
        if let Some(cell) = place.and_then(|place| cells.get_mut(place)) {
            text.clone_into(cell);
        }
    };
    set("file_name", file);
    set("prog_name", program);
    set("input", input);
    set("not_measured", failure.reason.lines().next().unwrap_or_default());
    cells
}

fn whole(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn real(number: Option<f64>) -> String {
    let number = number.filter(|number| number.is_finite());
    number.map_or_else(String::new, |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_without_folders() {
        let check = |path, expected: &str| assert_eq!(file_name(path), expected);
        check("target/a.o", "a.o");
        check("a.o", "a.o");
        check("/", "/");
        check("", "");
    }
}
