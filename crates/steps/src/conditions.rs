//! Date and machine of a measurement, printed with every result.

use std::{fs, process::Command, thread};

use crate::command::output_of;

/// Today in UTC, as `2026-11-22`.
pub fn date() -> String {
    output_of(Command::new("date").args(["-u", "+%F"])).unwrap_or_default().trim().to_owned()
}

/// CPU, number of CPUs and kernel.
pub fn machine() -> String {
    let uname = rustix::system::uname();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let kernel = uname.release().to_string_lossy();
    let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text));
    let cpu = cpu.unwrap_or_else(|| uname.machine().to_string_lossy().into_owned());
    format!("{cpu}, {cpus} CPUs, Linux {kernel}")
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cpu_names_the_machine() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2 GHz\nmodel name\t: Another\n";
        assert_eq!(cpu_model(text).as_deref(), Some("A CPU @ 2 GHz"));
        assert_eq!(cpu_model("Processor : x"), None);
    }
}
