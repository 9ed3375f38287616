//! What the machine does meanwhile: its CPUs are busy, and processes come and go.

use std::{
    io,
    process::{Child, Command, Stdio},
    thread,
};

/// One of these keeps each CPU busy, in turn. A shell and Perl are on every machine that can build this tree.
const BUSY: [&[&str]; 2] = [
    &[
        "perl",
        "-e",
        "for (;;) { my %h = map { $_ => $_ * 7 } 1 .. 5000; my @s = sort { $h{$a} <=> $h{$b} } keys %h }",
    ],
    &["sh", "-c", "while :; do :; done"],
];

/// Short processes, in turn: from one that does nothing to one that starts others.
const SHORT: [&[&str]; 6] = [
    &["true"],
    &["sh", "-c", ":"],
    &["perl", "-e", "1"],
    &["git", "--version"],
    &["sh", "-c", "echo a | grep -q a"],
    &["gcc", "-fsyntax-only", "-x", "c", "/dev/null"],
];

/// A process that is ended with this.
#[derive(Debug)]
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Keeps all CPUs busy until the processes are dropped.
pub(super) fn busy() -> io::Result<Vec<Ended>> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    BUSY.iter().cycle().take(cpus).map(|words| command(words).spawn().map(Ended)).collect()
}

/// Runs the next short process.
pub(super) fn short(number: u64) -> io::Result<()> {
    command(SHORT[(number % SHORT.len() as u64) as usize]).status().map(drop)
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_processes_can_be_run() {
        for words in SHORT {
            let status = command(words).status().expect("it starts");
            assert!(status.success(), "{words:?}");
        }
    }
}
