//! Errors that prevent a measurement.

use std::{io, path::PathBuf};

use wingbeat_bpf_loader::{
    code,
    loader::{LoadError, MapError, ResetError, RunError, VerifierStatistics},
    spec::{Linked, OtherCode, Spec, SpecError},
};

use crate::{
    input::InputError,
    result::{Failure, Verifier},
};

/// Nothing can be measured. Problems of single programs are reported with their results instead.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Reset(#[from] ResetError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("{path}: {reason}")]
    Contents { path: PathBuf, reason: String },
    #[error("{}", no_programs(.file, .other_code))]
    NoPrograms { file: String, other_code: Vec<OtherCode> },
    #[error("{file} has no map {name:?}; it has {known}")]
    NoSuchMap { file: String, name: String, known: String },
    #[error(
        "{file} accesses kernel structures by field (CO-RE), but the types of this kernel are not \
         available: {reason}"
    )]
    Target { file: String, reason: String },
    #[error("cannot run on CPU {cpu}: {source}; this process may use {allowed}")]
    Cpu { cpu: usize, allowed: String, source: io::Error },
    #[error("cannot extend {target}: {reason}")]
    Extended { target: String, reason: String },
    #[error(
        "BPF run-time statistics are on (kernel.bpf_stats_enabled, or a tool such as bpftop holds them): they add 25 to 50 ns to every run, which makes a short program look several times as slow. Switch them off (`sysctl kernel.bpf_stats_enabled=0`), or measure all the same with --allow-stats"
    )]
    StatisticsOn,
    #[error("{0}")]
    NotMeasurable(String),
    #[error(
        "the measuring thread ended unexpectedly; this is a defect of wingbeat, please report it"
    )]
    Thread,
}

impl BenchError {
    /// The object has no programs.
    pub fn no_programs(spec: &Spec) -> Self {
        Self::NoPrograms { file: spec.file().to_owned(), other_code: spec.other_code().to_vec() }
    }

    /// The failure of a single case with this name.
    pub(super) fn failure(&self, name: &str) -> Failure {
        let failure = Failure::new(name, self.to_string());
        let Self::Load(LoadError::Rejected { rejection, .. }) = self else { return failure };
        let statistics = VerifierStatistics::parse(&rejection.log);
        let (verifier, log) = (Some(Verifier::from(&statistics)), Some(rejection.log.clone()));
        Failure { is_rejected: true, verifier, log, ..failure }
    }
}

/// Adds what the program expects, if its code shows it, to the error of a run that the kernel
/// rejected because of its context.
pub(super) fn explained(error: BenchError, linked: &Linked, given: &[u8]) -> BenchError {
    let BenchError::Run(RunError::Input { bytes, context_bytes, source, hint }) = error else {
        return error;
    };
    let takes_context = linked.program.r#type.test_run().is_some_and(|rules| !rules.repeats);
    let read = code::context_bytes(&linked.code);
    let is_short =
        takes_context && source.kind() == io::ErrorKind::InvalidInput && read > given.len();
    let hint = match given.len() {
        _ if !is_short => hint,
        0 => format!("; this program reads {read} bytes of context: pass them with --ctx"),
        len => format!("; this program reads {read} bytes of context, {len} were given"),
    };
    BenchError::Run(RunError::Input { bytes, context_bytes, source, hint })
}

/// First line of an error, without the verifier log.
pub(super) fn short(error: &dyn std::error::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Maximum number of sections and functions named before the rest is summarized.
const NAMED_MAX: usize = 8;

/// Why an object has no programs: no code at all, or code of unknown purpose.
fn no_programs(file: &str, other_code: &[OtherCode]) -> String {
    let untyped = other_code.iter().find_map(|code| match code {
        OtherCode::UnknownType { section, .. } => Some(section),
        OtherCode::NoFunctions { .. } => None,
    });
    let sections = listed(other_code.iter().map(|code| match code {
        OtherCode::UnknownType { section, functions } if functions.is_empty() => {
            format!("section {section:?} (static functions)")
        }
        OtherCode::UnknownType { section, functions } => {
            format!("section {section:?} ({})", listed(functions.iter().cloned()))
        }
        OtherCode::NoFunctions { section } => {
            format!("section {section:?} (no symbol marks the start of a function)")
        }
    }));
    match (other_code, untyped) {
        ([], _) => format!(
            "{file} has no programs: it was compiled, but nothing in it is in a program section such as \"xdp\""
        ),
        (_, None) => format!("{file} has no programs: its code is in {sections}"),
        (_, Some(section)) => format!(
            "{file} has no programs of a known type: its code is in {sections}. Set the type, as \
             bpftool names it or by a section name of libbpf: --type {section}=xdp"
        ),
    }
}

fn listed(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let mut shown: Vec<_> = names.take(NAMED_MAX).collect();
    shown.extend((more > 0).then(|| format!("{more} more")));
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_without_programs() {
        let check = |other_code: &[OtherCode], expected: &str| {
            assert_eq!(no_programs("a.o", other_code), expected);
        };
        let unknown = |section: &str, functions: &[&str]| OtherCode::UnknownType {
            section: section.to_owned(),
            functions: functions.iter().map(ToString::to_string).collect(),
        };
        check(
            &[],
            "a.o has no programs: it was compiled, but nothing in it is in a program section such as \"xdp\"",
        );
        check(
            &[unknown("prog", &["f", "g"]), unknown("1/0x1010", &["h"])],
            "a.o has no programs of a known type: its code is in section \"prog\" (f, g), section \
             \"1/0x1010\" (h). Set the type, as bpftool names it or by a section name of \
             libbpf: --type prog=xdp",
        );
        check(
            &[OtherCode::NoFunctions { section: "xdp".to_owned() }],
            "a.o has no programs: its code is in section \"xdp\" (no symbol marks the start of a \
             function)",
        );
    }
}
