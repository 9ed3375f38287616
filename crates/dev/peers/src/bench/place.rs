//! Where it is measured, and what keeps the other CPUs busy meanwhile.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use anyhow::Context as _;

/// The CPUs that this process may run on, in order.
pub(super) fn cpus() -> anyhow::Result<Vec<usize>> {
    let status =
        fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.and_then(parse).context("/proc/self/status does not tell the allowed CPUs")
}

/// A list such as `0-3,6`.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel is built for more CPUs than 8192.
        cpus.extend(first..=last.min(8192));
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// A process that never rests, on one CPU; ended when this is dropped.
#[derive(Debug)]
pub(super) struct Load(Child);

impl Load {
    /// Starts it.
    pub(super) fn on(cpu: usize) -> anyhow::Result<Self> {
        let mut command = Command::new("taskset");
        command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
        let child = command.stdin(Stdio::null()).spawn().context("cannot start a load")?;
        Ok(Self(child))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // It may have ended by the same Ctrl-C as we; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let check = |text, expected: Option<&[usize]>| {
            assert_eq!(parse(text).as_deref(), expected, "{text}");
        };
        check("\t0-1\n", Some(&[0, 1]));
        check("3", Some(&[3]));
        check("0,2-4", Some(&[0, 2, 3, 4]));
        check("", None);
        check("a-b", None);
    }
}
