//! Prints and counts the classes from the queue.

use std::{
    fmt,
    io::{self, BufWriter, StdoutLock, Write},
};

use anyhow::Context;
use fun_xdp::{Classes, SourceAddr};

/// Reads classes from the queue and prints them.
pub(crate) struct Printer {
    classes: Classes,
    out: BufWriter<StdoutLock<'static>>,
    tally: Tally,
}

/// Result of polling the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Printed {
    /// The queue is empty.
    All,
    /// A full queue was printed, and there is more.
    Some,
    /// The reader of our output is gone.
    NobodyReads,
}

impl Printer {
    pub(crate) fn new(classes: Classes) -> Self {
        Self { classes, out: BufWriter::new(io::stdout().lock()), tally: Tally::default() }
    }

    /// Prints the contents of the queue, limited to its capacity, as it may fill as fast as it is read.
    pub(crate) fn print(&mut self) -> anyhow::Result<Printed> {
        let most = self.classes.capacity() as usize;
        let mut printed = 0;
        for class in self.classes.by_ref().take(most) {
            let class = class?;
            self.tally.count(class);
            printed += 1;
            if let Err(error) = writeln!(self.out, "{class}") {
                return broken(error);
            }
        }
        match self.out.flush() {
            Err(error) => broken(error),
            Ok(()) if printed == most => Ok(Printed::Some),
            Ok(()) => Ok(Printed::All),
        }
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }
}

fn broken(error: io::Error) -> anyhow::Result<Printed> {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(Printed::NobodyReads),
        _ => Err(error).context("cannot write to stdout"),
    }
}

/// Number of each class.
#[derive(Debug, Default)]
pub(crate) struct Tally([u64; SourceAddr::ALL.len()]);

impl Tally {
    fn count(&mut self, class: SourceAddr) {
        // Discriminants are 0, 1, and so on: see `SourceAddr::ALL`.
        if let Some(count) = self.0.get_mut(class as usize) {
            *count += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} classified", self.0.iter().sum::<u64>())?;
        for (class, count) in SourceAddr::ALL.iter().zip(self.0) {
            write!(f, ", {count} {class}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_names_every_class() {
        let mut tally = Tally::default();
        assert_eq!(tally.to_string(), "0 classified, 0 Fizz, 0 Buzz, 0 FizzBuzz, 0 Fibonacci");
        for class in [SourceAddr::Fibonacci, SourceAddr::Buzz, SourceAddr::Fibonacci] {
            tally.count(class);
        }
        assert_eq!(tally.to_string(), "3 classified, 0 Fizz, 1 Buzz, 0 FizzBuzz, 2 Fibonacci");
    }
}
