//! CSV: a row per case. veristat's columns first, with its names and order, then our own.
//!
//! Names and order are those of `stat_defs` and `default_csv_output_spec` in
//! tools/testing/selftests/bpf/veristat.c, version 0.5.1 (Linux 6.15). Two of its columns are
//! missing, `attach_type` and `mem_peak`, which are not part of a result.

use std::{io, path::Path};

use crate::result::{BenchReport, Case, RunCounts, Size, Verifier};

/// veristat's columns, then our own.
const COLUMNS: &str = "file_name,prog_name,verdict,duration,total_insns,total_states,peak_states,\
    max_states_per_insn,max_mark_read_len,prog_size,prog_size_jited,prog_type,stack_depth,\
    latency_ns,latency_lower_ns,latency_upper_ns,latency_p50_ns,latency_p99_ns,instructions,input,\
    return_value,not_measured,latency_own_output_ns,instructions_own_output";

/// Writes cases, then unmeasured programs with the reason: programs that were only loaded, with
/// verifier figures; rejected programs, with the verdict `failure`; and others without a verdict.
/// Unknown values are empty.
pub fn csv(report: &BenchReport) -> io::Result<String> {
    let file = file_name(&report.object);
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.split(','))?;
    let mut write = |program: &str, known: Known<'_>, own: [String; 11]| {
        let file_and_program = [file.clone(), program.to_owned()];
        let veristat = file_and_program.into_iter().chain(veristat_cells(known));
        writer.write_record(veristat.chain(own))
    };
    for case in &report.cases {
        let known = Known::loaded(&case.verifier, &case.size, &case.r#type);
        write(&case.program, known, own_cells(case))?;
    }
    for program in &report.verified {
        let known = Known::loaded(&program.verifier, &program.size, &program.r#type);
        write(&program.name, known, own_cells_of_unmeasured("", &program.reason))?;
    }
    let is_written = |name: &str| report.verified.iter().any(|program| program.name == name);
    for failure in report.failures.iter().chain(&report.skipped) {
        if !is_written(&failure.name) {
            // A failure has the name of its program, with its input if there are several.
            let (program, input) = failure.name.split_once('/').unwrap_or((&failure.name, ""));
            let known = match failure.is_rejected {
                true => {
                    Known { verdict: "failure", verifier: failure.verifier.as_ref(), loaded: None }
                }
                false => Known::default(),
            };
            write(program, known, own_cells_of_unmeasured(input, &failure.reason))?;
        }
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// File name without folders, as in veristat.
pub(super) fn file_name(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(|| path.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// veristat's data of a program. Size and type are unknown for programs that are not loaded.
#[derive(Clone, Copy, Default)]
struct Known<'a> {
    verdict: &'static str,
    verifier: Option<&'a Verifier>,
    loaded: Option<(&'a Size, &'a str)>,
}

impl<'a> Known<'a> {
    fn loaded(verifier: &'a Verifier, size: &'a Size, r#type: &'a str) -> Self {
        Self { verdict: "success", verifier: Some(verifier), loaded: Some((size, r#type)) }
    }
}

fn veristat_cells(Known { verdict, verifier, loaded }: Known<'_>) -> [String; 11] {
    let figure = |figure: fn(&Verifier) -> Option<u64>| whole(verifier.and_then(figure));
    let of_loaded = |cell: fn((&Size, &str)) -> String| loaded.map_or_else(String::new, cell);
    [
        verdict.to_owned(),
        figure(|verifier| verifier.duration_us),
        figure(|verifier| verifier.processed_instructions),
        figure(|verifier| verifier.total_states),
        figure(|verifier| verifier.peak_states),
        figure(|verifier| verifier.max_states_per_instruction),
        figure(|verifier| verifier.mark_read),
        of_loaded(|(size, _)| size.object_instructions.to_string()),
        of_loaded(|(size, _)| size.jited_bytes.to_string()),
        of_loaded(|(_, r#type)| r#type.to_owned()),
        figure(|verifier| Some(verifier.stack_depth_bytes.into())),
    ]
}

fn own_cells(case: &Case) -> [String; 11] {
    let own_output = case.own_output.as_ref();
    let latency = case.latency.measured();
    let single = case.distribution.measured();
    [
        real(latency.map(|latency| latency.median_ns)),
        real(latency.map(|latency| latency.lower_ns)),
        real(latency.map(|latency| latency.upper_ns)),
        real(single.map(|single| single.p50_ns)),
        real(single.map(|single| single.p99_ns)),
        case.counts.measured().map_or_else(String::new, executed),
        case.input.clone(),
        case.outcome.return_value.to_string(),
        String::new(),
        real(own_output.and_then(|own| own.median_ns)),
        whole(own_output.and_then(|own| own.instructions)),
    ]
}

/// A number, or a range if it varies.
fn executed(counts: &RunCounts) -> String {
    match &counts.variation {
        Some(found) => format!("{}-{}", found.lowest, found.highest),
        None => counts.instructions.to_string(),
    }
}

/// Our own columns for programs that only have a reason.
fn own_cells_of_unmeasured(input: &str, reason: &str) -> [String; 11] {
    let mut cells = [const { String::new() }; 11];
    let [.., of_input, _, of_reason, _, _] = &mut cells;
    input.clone_into(of_input);
    reason.lines().next().unwrap_or_default().clone_into(of_reason);
    cells
}

pub(crate) fn whole(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

pub(crate) fn real(number: Option<f64>) -> String {
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
