//! Parsers of eBPF objects and of inputs of `wingbeat bench`.

use std::{collections::HashSet, path::Path};

use wingbeat_bpf_bench::{
    input::{EntryValue, MapContents, MapKind, MapShape, capture::is_capture, hex, parse},
    report::veristat::{VeristatRow, read},
};
use wingbeat_bpf_loader::{KernelTypes, spec::Spec};

/// The kernel's type information: any bytes. Looks up the names of the seeds.
pub fn btf(bytes: &[u8]) {
    let Ok(types) = KernelTypes::parse(bytes) else { return };
    assert!(types.len() <= bytes.len());
    for (structure, member) in [("s", "a"), ("s", "b"), ("u", "a"), ("", ""), ("s", "c")] {
        let _ = types.member_offset_bytes(structure, member);
    }
    let _ = (types.function_id("f"), types.typedef_id("t"));
}

/// An eBPF object: parses it and links every program, for a kernel with the object's own types.
pub fn object_file(bytes: &[u8]) {
    let Ok(mut spec) = Spec::parse("object", bytes) else { return };
    let types = spec.types();
    let kernel = match types.bytes() {
        [] => None,
        bytes => Some(KernelTypes::parse(bytes).expect("types for the kernel hold together")),
    };
    for program in spec.programs() {
        let Ok(linked) = spec.link_program(&program.name, kernel.as_ref()) else { continue };
        let len = linked.code.insns.len();
        assert_eq!(linked.code.functions[0].name, program.name);
        assert!(linked.code.functions.iter().all(|found| (found.insn_index as usize) < len));
        assert!(linked.code.lines.is_sorted_by_key(|line| line.insn_index));
        for line in &linked.code.lines {
            assert!((line.insn_index as usize) < len);
            assert!(types.string(line.file_offset).is_some());
            assert!(types.string(line.text_offset).is_some());
        }
        for call in &linked.kfuncs {
            assert_eq!(linked.kfunc_at(call.insn_index), Some(call));
        }
    }
    for map in spec.maps() {
        assert!(map.initial.as_ref().is_none_or(|value| value.len() == map.value_size as usize));
    }
    let _ = spec.set_global("limit", &[1; 4]);
    let _ = (spec.externs(), spec.other_code(), spec.license(), spec.kernel_version());
}

const PACKETS_MAX: usize = 8;

/// Capture files, and other inputs: any bytes.
pub fn capture(bytes: &[u8]) {
    let read = parse(Path::new("fuzz"), "fuzz", bytes, PACKETS_MAX)
        .inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(loaded) = read else { return };
    let names: HashSet<_> = loaded.inputs.iter().map(|input| &input.name).collect();
    assert_eq!(names.len(), loaded.inputs.len());
    assert!((1..=PACKETS_MAX).contains(&names.len()));
    // Each packet is in the file, after its own header.
    let data: usize = loaded.inputs.iter().map(|input| input.data.len()).sum();
    assert!(data + if is_capture(bytes) { 40 } else { 0 } <= bytes.len());
    assert!(loaded.warnings.iter().all(|warning| !warning.to_string().is_empty()));
}

/// Hexadecimal text: any bytes. Parsed bytes must survive a round trip through plain text.
pub fn hex_input(text: &[u8]) {
    let read = hex::parse(text).inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(bytes) = read else { return };
    assert!(!bytes.is_empty() && 2 * bytes.len() <= text.len());
    let plain: Vec<_> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    assert_eq!(hex::parse(plain.join(" ").as_bytes()), Ok(bytes));
}

const KINDS: [MapKind; 6] = [
    MapKind::Hash,
    MapKind::PerCpuHash,
    MapKind::Array,
    MapKind::PerCpuArray,
    MapKind::Queue,
    MapKind::ProgramTable,
];

/// Map contents: after three bytes, for kind of map and sizes of keys and values, any text.
pub fn map_contents(bytes: &[u8]) {
    let Some(([kind, key_bytes, value_bytes], json)) = bytes.split_first_chunk() else { return };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let key_bytes = if kind == MapKind::Queue { 0 } else { usize::from(*key_bytes) };
    let shape = MapShape { kind, key_bytes, value_bytes: usize::from(*value_bytes) };
    let read =
        MapContents::parse(json, shape).inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(contents) = read else { return };
    let keys: HashSet<_> = contents.entries.iter().map(|entry| &entry.key).collect();
    assert!(kind == MapKind::Queue || keys.len() == contents.entries.len());
    for entry in &contents.entries {
        assert_eq!(entry.key.len(), shape.key_bytes);
        let (values, cpus) = match &entry.value {
            EntryValue::Same(value) => (vec![value], 2),
            EntryValue::PerCpu(values) => (values.iter().collect(), values.len()),
            EntryValue::Program(_) => {
                assert_eq!(kind, MapKind::ProgramTable);
                continue;
            }
            EntryValue::Map(_) => {
                assert!(matches!(kind, MapKind::MapTable | MapKind::MapHash));
                continue;
            }
        };
        assert_ne!(kind, MapKind::ProgramTable);
        assert!(values.iter().all(|value| value.len() == shape.value_bytes));
        let is_per_cpu = matches!(kind, MapKind::PerCpuHash | MapKind::PerCpuArray);
        let expected = match is_per_cpu {
            true => cpus * shape.value_bytes.next_multiple_of(8),
            false => shape.value_bytes,
        };
        let for_kernel = entry.value_for_kernel(kind, cpus);
        assert_eq!(for_kernel.map(|bytes| bytes.len()), Ok(expected));
    }
}

const HEADER: &str = "file_name,prog_name,verdict,prog_type,total_insns,total_states,peak_states,\
                      max_states_per_insn,prog_size,prog_size_jited,stack_depth,duration,\
                      max_mark_read_len\n";

/// veristat CSV: any bytes. Parsed rows must survive a round trip.
pub fn veristat_csv(bytes: &[u8]) {
    let found = read(bytes).inspect_err(|error| assert!(!error.to_string().is_empty()));
    let Ok(rows) = found else { return };
    assert!(rows.len() <= bytes.len());
    assert!(rows.iter().all(|row| !row.file_name.is_empty() && !row.program.is_empty()));
    let plain: String = rows.iter().map(plain).collect();
    assert_eq!(read(format!("{HEADER}{plain}").as_bytes()).ok(), Some(rows));
}

fn plain(row: &VeristatRow) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let verdict = row.is_accepted.map_or("N/A", |is| if is { "success" } else { "failure" });
    let r#type = row.r#type.as_deref().map_or_else(String::new, quoted);
    let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
    let numbers: Vec<_> = row.numbers.into_iter().map(number).collect();
    let (file_name, program) = (quoted(&row.file_name), quoted(&row.program));
    format!("{file_name},{program},{verdict},{type},{}\n", numbers.join(","))
}
