//! veristat CSV: any bytes. Parsed rows must survive a round trip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_bench::report::veristat::{VeristatRow, read};

const HEADER: &str = "file_name,prog_name,verdict,prog_type,total_insns,total_states,peak_states,\
                      max_states_per_insn,prog_size,prog_size_jited,stack_depth,duration,\
                      max_mark_read_len\n";

fuzz_target!(|bytes: &[u8]| {
    let found = read(bytes).inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(rows) = found else { return };
    assert!(rows.len() <= bytes.len());
    assert!(rows.iter().all(|row| !row.file_name.is_empty() && !row.program.is_empty()));
    let plain: String = rows.iter().map(plain).collect();
    assert_eq!(read(format!("{HEADER}{plain}").as_bytes()).ok(), Some(rows));
});

fn plain(row: &VeristatRow) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let verdict = row.is_accepted.map_or("N/A", |is| if is { "success" } else { "failure" });
    let r#type = row.r#type.as_deref().map_or_else(String::new, quoted);
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let numbers: Vec<_> = row.numbers.into_iter().map(number).collect();
    let (file_name, program) = (quoted(&row.file_name), quoted(&row.program));
    format!("{file_name},{program},{verdict},{type},{}\n", numbers.join(","))
}
