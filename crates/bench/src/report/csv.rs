//! CSV: a row per case. veristat's columns first, by its names and in its order, then our own.
//!
//! Names and order are those of `stat_defs` and `default_csv_output_spec` in
//! tools/testing/selftests/bpf/veristat.c, version 0.5.1 (Linux 6.15). Two of its columns are not
//! there, `attach_type` and `mem_peak`, which a result does not hold.

use std::{io, path::Path};

use crate::result::{Case, Failure, Report, Size, Verified, Verifier};

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

/// Writes cases and, below them, what was not measured, with the reason: programs that were only
/// loaded, with the verifier's figures; those that it rejected, with the verdict `failure`; and without a
/// verdict where something else stands in the way. What is not known is empty.
///
/// # Errors
///
/// Those of the writer, which have no cause here.
pub fn csv(report: &Report) -> io::Result<String> {
    let file = file_name(&report.object);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(VERISTAT_COLUMNS.iter().chain(&OWN_COLUMNS))?;
    for case in &report.cases {
        let cells = veristat_cells(&file, &case.program, &case.r#type, &case.verifier, &case.size);
        writer.write_record(cells.iter().chain(&own_cells(case)))?;
    }
    for program in &report.verified {
        let Verified { name, r#type, reason, verifier, size } = program;
        let cells = veristat_cells(&file, name, r#type, verifier, size);
        writer.write_record(cells.iter().chain(&own_cells_of_unmeasured("", reason)))?;
    }
    let is_written = |name: &str| report.verified.iter().any(|program| program.name == name);
    for failure in report.failures.iter().chain(&report.skipped) {
        if !is_written(&failure.name) {
            writer.write_record(unmeasured_cells(&file, failure))?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// As veristat writes it: without folders.
pub(super) fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

fn veristat_cells(
    file: &str,
    program: &str,
    r#type: &str,
    verifier: &Verifier,
    size: &Size,
) -> [String; 13] {
    [
        file.to_owned(),
        program.to_owned(),
        "success".to_owned(),
        whole(verifier.duration_us),
        whole(verifier.processed_instructions),
        whole(verifier.total_states),
        whole(verifier.peak_states),
        whole(verifier.max_states_per_instruction),
        whole(verifier.mark_read),
        size.object_instructions.to_string(),
        size.jited_bytes.to_string(),
        r#type.to_owned(),
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

/// Our own columns of what has none but the reason.
fn own_cells_of_unmeasured(input: &str, reason: &str) -> [String; 9] {
    let mut cells = [const { String::new() }; 9];
    let [.., of_input, _, of_reason] = &mut cells;
    input.clone_into(of_input);
    reason.lines().next().unwrap_or_default().clone_into(of_reason);
    cells
}

/// The name of a failure is that of its program, with its input where there are several.
fn unmeasured_cells(file: &str, failure: &Failure) -> Vec<String> {
    let (program, input) = failure.name.split_once('/').unwrap_or((&failure.name, ""));
    let verifier = failure.verifier.as_ref().filter(|_| failure.is_rejected);
    let figure = |figure: fn(&Verifier) -> Option<u64>| whole(verifier.and_then(figure));
    let cells = [
        file.to_owned(),
        program.to_owned(),
        if failure.is_rejected { "failure".to_owned() } else { String::new() },
        figure(|verifier| verifier.duration_us),
        figure(|verifier| verifier.processed_instructions),
        figure(|verifier| verifier.total_states),
        figure(|verifier| verifier.peak_states),
        figure(|verifier| verifier.max_states_per_instruction),
        figure(|verifier| verifier.mark_read),
        // Sizes and type are not known of what is not in the kernel.
        String::new(),
        String::new(),
        String::new(),
        figure(|verifier| Some(verifier.stack_depth_bytes.into())),
    ];
    cells.into_iter().chain(own_cells_of_unmeasured(input, &failure.reason)).collect()
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
