//! Benchmarks that are shell scripts.

use std::{fs, path::Path};

/// A script that prints a nearly constant latency: up to 0.6 % more.
pub(crate) fn script(latency: u32) -> String {
    let value = format!("$(( {latency} + ${{noise:-0}} % 7 ))");
    printing("noise=$(date +%N | sed 's/^0*//')", "loop", "latency", &value)
}

/// A script that runs a line, then prints one value of a measure.
pub(crate) fn printing(line: &str, name: &str, measure: &str, value: &str) -> String {
    format!(
        "#!/bin/sh\n{line}\n\
         echo \"{{\\\"{name}\\\": {{\\\"{measure}\\\": {{\\\"value\\\": {value}}}}}}}\"\n"
    )
}

pub(crate) fn lines_of(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |text| text.lines().count())
}
