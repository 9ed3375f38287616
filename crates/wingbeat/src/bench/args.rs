//! Flags of `wingbeat bench`, partly shared with `annotate`.

use std::{convert::Infallible, path::PathBuf, time::Duration};

use wingbeat_bpf_bench::{
    analyse::{Expectation, compare::Thresholds},
    input::{MapSource, PACKETS_MAX, Source},
    measure::{TargetSource, allowed_cpus},
    report::Format,
};
use wingbeat_bpf_loader::spec::{GlobalSetting, SectionType};

use crate::values::{FormatArgs, duration, share};

/// What programs are run on.
#[derive(Debug, clap::Args)]
pub(crate) struct InputArgs {
    /// Input to run the programs on; repeatable: raw bytes, .hex text, or .pcap and .pcapng, where each
    /// packet is an input; NAME=FILE names it [default: a UDP packet of 64 bytes]
    #[arg(long, value_name = "FILE")]
    #[arg(value_parser = |text: &str| text.parse::<Source>().map_err(|error: Infallible| error))]
    pub(crate) input: Vec<Source>,
    /// Maximum number of packets to take from each capture file
    #[arg(long, value_name = "N", default_value_t = PACKETS_MAX, value_parser = at_least_one)]
    pub(crate) packets: usize,
    /// Context structure to pass to each run, as raw bytes or .hex text
    #[arg(long, value_name = "FILE")]
    pub(crate) ctx: Option<PathBuf>,
    /// Fill a map from JSON: [{"key": 1, "value": "0x0a000001"}, …], or the output of `bpftool map dump -j`;
    /// in a program array "value" is {"program": "NAME"}, in a map of maps {"map": "NAME"}; repeatable
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) map: Vec<MapSource>,
    /// Set the program type of a section whose name does not imply one: a type of bpftool or a section
    /// name of libbpf, as in prog=xdp or prog=fentry/schedule; repeatable
    #[arg(long = "type", value_name = "SECTION=TYPE")]
    pub(crate) r#type: Vec<SectionType>,
    /// Set a global variable, such as a constant that configures the object, or a part of one, as in
    /// `limits[2]=9` or config.mode=FAST: a number, true, false, the name of an enumerator, a text, or
    /// hex: and bytes; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    #[arg(value_parser = |text: &str| text.parse::<GlobalSetting>())]
    pub(crate) program_data: Vec<GlobalSetting>,
}

/// Flags of `wingbeat bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Object file with eBPF programs
    #[arg(value_name = "OBJECT")]
    pub(crate) object: PathBuf,
    /// Programs to measure, by name or by a unique part of it [default: all]
    #[arg(value_name = "PROGRAM")]
    pub(crate) programs: Vec<String>,
    #[command(flatten)]
    pub(crate) inputs: InputArgs,
    /// Program that the extensions (freplace) or tracers in OBJECT attach to: another object, or the id or
    /// pin of a loaded program [default: one of OBJECT]
    #[arg(long, value_name = "OBJECT")]
    #[arg(value_parser = |text: &str| text.parse::<TargetSource>().map_err(|error: Infallible| error))]
    pub(crate) target: Option<TargetSource>,
    /// Compare with the same programs of another object, alternating between both, or with a .csv file
    #[arg(long, value_name = "OBJECT")]
    pub(crate) against: Option<PathBuf>,
    /// Maximum total measuring time: 10s, 2m [default: 3 s per program and input, between 5 s and 1 m;
    /// four times that with --against]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) time: Option<Duration>,
    /// Maximum number of samples per program and input
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) samples: Option<usize>,
    /// CPU to run on [default: the last allowed one]
    #[arg(long, value_name = "N", value_parser = cpu)]
    pub(crate) cpu: Option<usize>,
    /// Fail unless every program returns this value: a number (2, 0xdc) or a name (XDP_PASS, TC_ACT_OK)
    #[arg(long, value_name = "RETVAL", allow_negative_numbers = true)]
    pub(crate) expect: Option<Expectation>,
    /// Measure even if run-time statistics are on, which make every run slower
    #[arg(long)]
    pub(crate) allow_stats: bool,
    /// Exit with 1 if a figure is worse by more than its threshold
    #[arg(long, requires = "against")]
    pub(crate) err: bool,
    /// Largest acceptable increase of a time, in percent [default: 1]
    #[arg(long, value_name = "PERCENT", value_parser = share, requires = "against")]
    pub(crate) threshold: Option<f64>,
    /// Largest acceptable increase of an exact count, in percent [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = share, requires = "against")]
    pub(crate) threshold_exact: Option<f64>,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Format>,
    /// Write the result to FILE instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a profile (pprof) of the executed instructions of each case to DIR, by function and line
    /// [env: WINGBEAT_PROFILES]
    #[arg(long, value_name = "DIR")]
    pub(crate) profiles: Option<PathBuf>,
    /// Seed for the order of batches and for resampling
    #[arg(long, value_name = "N", default_value_t = 230)]
    pub(crate) seed: u64,
}

impl BenchArgs {
    pub(super) fn format(&self) -> Format {
        self.format.get()
    }

    pub(super) fn thresholds(&self) -> Thresholds {
        let usual = Thresholds::default();
        Thresholds {
            time: self.threshold.unwrap_or(usual.time),
            exact: self.threshold_exact.unwrap_or(usual.exact),
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

/// A CPU that this process may run on.
fn cpu(text: &str) -> Result<usize, String> {
    let allowed = allowed_cpus();
    match text.parse() {
        Ok(cpu) if allowed.contains(&cpu) => Ok(cpu),
        _ => Err(format!("this process may run on {}", cpu_list(&allowed))),
    }
}

/// `CPU 0`, `CPUs 0-3, 8`.
fn cpu_list(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|cpu, next| cpu + 1 == *next);
    let ranges = ranges.map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        _ => range.iter().map(ToString::to_string).collect(),
    });
    let noun = if cpus.len() == 1 { "CPU" } else { "CPUs" };
    format!("{noun} {}", ranges.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus() {
        let check = |cpus: &[usize], expected: &str| assert_eq!(cpu_list(cpus), expected);
        check(&[0], "CPU 0");
        check(&[0, 1], "CPUs 0-1");
        check(&[0, 1, 2, 5, 8, 9], "CPUs 0-2, 5, 8-9");
        assert!(allowed_cpus().iter().all(|one| cpu(&one.to_string()) == Ok(*one)));
        assert!(["", "-1", "all", "99999999999999999999"].iter().all(|text| cpu(text).is_err()));
    }
}
