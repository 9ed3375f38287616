//! Map contents: after three bytes, for kind of map and sizes of keys and values, any text.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::fuzz_target;
use wingbeat_bpf_bench::input::{EntryValue, MapContents, MapKind, MapShape};

const KINDS: [MapKind; 6] = [
    MapKind::Hash,
    MapKind::PerCpuHash,
    MapKind::Array,
    MapKind::PerCpuArray,
    MapKind::Queue,
    MapKind::ProgramTable,
];

fuzz_target!(|bytes: &[u8]| {
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
});
