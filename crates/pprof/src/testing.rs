//! A profile for tests.

use crate::proto::{Function, Line, Location, Profile, Sample, ValueType};

/// A window of 15 seconds in one function, which took `value` nanoseconds of CPU time.
pub fn window(function: &str, value: i64, start_ns: i64) -> Profile {
    Profile {
        sample_type: vec![ValueType { r#type: 1, unit: 2 }],
        sample: vec![Sample { location_id: vec![1], value: vec![value], label: Vec::new() }],
        location: vec![Location {
            id: 1,
            line: vec![Line { function_id: 1, line: 0 }],
            ..Location::default()
        }],
        function: vec![Function { id: 1, name: 3, ..Function::default() }],
        string_table: ["", "cpu", "nanoseconds", function].map(str::to_owned).to_vec(),
        time_nanos: start_ns,
        duration_nanos: 15_000_000_000,
        ..Profile::default()
    }
}
