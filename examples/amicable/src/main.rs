//! Prints amicable pairs, by brute force.
//!
//! Two numbers are amicable when each is the sum of the other's proper divisors. There are quick
//! ways to find them; this program takes the slowest on purpose, because it exists to be profiled.
//!
//! The functions are kept apart by `#[inline(never)]`. Inlined, they would all be `main`, and a flame
//! graph that only knows real frames would show a single bar.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use clap::Parser;

/// Prints amicable pairs, slowly: something for a profiler to look at.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    /// Look at numbers below this one.
    #[arg(default_value_t = 65_535)]
    limit: u32,

    /// Do it all this often.
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    repeat: u32,
}

fn main() -> ExitCode {
    match run(&Cli::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is broken too, the exit code still reports the failure.
            let _ = writeln!(io::stderr(), "amicable: cannot write a pair: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends early, without an error, when the reader has closed the pipe.
fn run(cli: &Cli, out: &mut impl Write) -> io::Result<()> {
    for _ in 0..cli.repeat {
        match print_pairs(cli.limit, out) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Writes each pair below `limit` as a line, as soon as it is found.
#[inline(never)]
fn print_pairs(limit: u32, out: &mut impl Write) -> io::Result<()> {
    for smaller in 1..limit {
        if let Some(larger) = larger_partner(smaller, limit) {
            writeln!(out, "{smaller} {larger}")?;
        }
    }
    out.flush()
}

/// The amicable partner of `number` that is above it and below `limit`.
#[inline(never)]
fn larger_partner(number: u32, limit: u32) -> Option<u32> {
    let candidate = u32::try_from(divisor_sum(number)).ok()?;
    let in_range = number < candidate && candidate < limit;
    (in_range && divisor_sum(candidate) == u64::from(number)).then_some(candidate)
}

/// Sum of the proper divisors of `number`. Tries every number up to its half.
#[inline(never)]
fn divisor_sum(number: u32) -> u64 {
    // A plain loop instead of an iterator, whose many small inlined functions would dominate a
    // profile.
    let mut sum = 0;
    let mut divisor = 1;
    while divisor <= number / 2 {
        if number.is_multiple_of(divisor) {
            sum += u64::from(divisor);
        }
        divisor += 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let check = |words: &[&str], expected: Option<&str>| {
            let cli = Cli::try_parse_from(["amicable"].iter().chain(words)).ok();
            let printed = cli.map(|cli| {
                let mut out = Vec::new();
                run(&cli, &mut out).unwrap();
                String::from_utf8(out).unwrap()
            });
            assert_eq!(printed.as_deref(), expected, "{words:?}");
        };
        check(&["300"], Some("220 284\n"));
        check(&["300", "--repeat", "2"], Some("220 284\n220 284\n"));
        check(&["300", "--repeat", "0"], Some(""));
        check(&["many"], None);
        check(&["-1"], None);
        check(&["300", "400"], None);
    }

    #[test]
    fn ends_quietly_when_its_reader_leaves() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let cli = Cli { limit: 300, repeat: 2 };
        assert!(run(&cli, &mut writer).is_ok());
        // Other errors are reported.
        assert!(run(&cli, &mut [0_u8; 4].as_mut_slice()).is_err());
    }

    #[test]
    fn sums_of_divisors() {
        let check = |number, expected| assert_eq!(divisor_sum(number), expected, "of {number}");
        check(0, 0);
        check(1, 0);
        check(2, 1);
        check(7, 1);
        check(6, 6);
        check(12, 16);
        check(220, 284);
        check(284, 220);
    }

    #[test]
    fn partners() {
        let check = |number, limit, expected: Option<u32>| {
            assert_eq!(larger_partner(number, limit), expected, "of {number} below {limit}");
        };
        check(220, 285, Some(284));
        check(1184, 65_535, Some(1210));
        // The limit itself is excluded.
        check(220, 284, None);
        // A pair is reported once, by its smaller number.
        check(284, 65_535, None);
        // Perfect numbers are their own partner, which is not a pair.
        check(6, 65_535, None);
        check(496, 65_535, None);
        // 12 leads to 16, which does not lead back.
        check(12, 65_535, None);
    }

    #[test]
    fn pairs_in_order() {
        let check = |limit, expected: &str| {
            let mut out = Vec::new();
            print_pairs(limit, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "below {limit}");
        };
        check(0, "");
        check(284, "");
        check(285, "220 284\n");
        check(3000, "220 284\n1184 1210\n2620 2924\n");
    }
}
