//! Timed commands, the steps of `test` and `demo`.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::bail;

use crate::command::{Failure, display, repository};

/// Runs commands in order on the terminal, and records how long each takes.
#[derive(Debug, Default)]
pub struct Steps {
    done: Vec<(String, Duration)>,
}

impl Steps {
    /// Runs a command in the repository root; a failure names the command.
    pub fn run(&mut self, command: &mut Command) -> anyhow::Result<()> {
        self.time(&display(command), |name| {
            let status = command.current_dir(repository()).status();
            let ending = match status {
                Ok(status) if status.success() => return Ok(()),
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            bail!(Failure { command: name.to_owned(), ending, tail: String::new() })
        })
    }

    /// Runs a step that is not a command.
    pub fn time(
        &mut self,
        name: &str,
        step: impl FnOnce(&str) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        eprintln!("==> {name}");
        let start = Instant::now();
        step(name)?;
        let took = start.elapsed();
        eprintln!("    {} s\n", seconds(took));
        self.done.push((name.to_owned(), took));
        Ok(())
    }

    /// Prints the time of each step and their sum.
    pub fn report(&self) {
        for (name, took) in &self.done {
            eprintln!("{:>8} s  {name}", seconds(*took));
        }
        let sum: Duration = self.done.iter().map(|(_, took)| *took).sum();
        eprintln!("{:>8} s  in all", seconds(sum));
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}
