//! What to measure, and how: the flags of `wingbeat bench` as data.

use std::time::Duration;

use wingbeat_bpf_loader::spec::{ProgramSpec, Spec, SpecError};

use crate::{
    analyse::Expectation,
    input::{Input, MapSource},
    measure::TargetSource,
};

/// How programs are measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Programs by name, or a unique part of the name; empty for all that can be run.
    pub programs: Vec<String>,
    /// Program inputs; at least one.
    pub inputs: Vec<Input>,
    /// Context structure for each run; empty for the kernel's own.
    pub context: Vec<u8>,
    pub maps: Vec<MapSource>,
    /// Target program whose functions the others replace; `None` for one of the same object.
    pub target: Option<TargetSource>,
    /// Time limit of the whole measurement; `None` to choose it by the number of cases.
    pub time: Option<Duration>,
    /// Maximum number of batches per case.
    pub samples: Option<usize>,
    /// CPU to run on; `None` for the last of the allowed ones.
    pub cpu: Option<usize>,
    /// Expected return value of every program.
    pub expect: Option<Expectation>,
    /// Whether to measure although run-time statistics are enabled, which makes short programs
    /// appear several times slower.
    pub allow_statistics: bool,
    pub seed: u64,
    /// Whether to keep the counts of each case by line, as a [profile](crate::result::Case::profile).
    pub profiles: bool,
}

/// Default time per case, and the bounds for all of them.
const TIME_PER_CASE: Duration = Duration::from_secs(3);
const TIME_MIN: Duration = Duration::from_secs(5);
const TIME_MAX: Duration = Duration::from_secs(60);

impl Default for Plan {
    /// All programs on the default packet.
    fn default() -> Self {
        Self {
            programs: Vec::new(),
            inputs: vec![Input::default_packet()],
            context: Vec::new(),
            maps: Vec::new(),
            target: None,
            time: None,
            samples: None,
            cpu: None,
            expect: None,
            allow_statistics: false,
            seed: 1,
            profiles: false,
        }
    }
}

impl Plan {
    /// Time limit of a measurement of `cases`, each `weight` times as long as usual.
    pub fn time_for(&self, cases: usize, weight: u32) -> Duration {
        let cases = u32::try_from(cases).unwrap_or(u32::MAX);
        self.time.unwrap_or_else(|| {
            TIME_PER_CASE.saturating_mul(cases).clamp(TIME_MIN, TIME_MAX).saturating_mul(weight)
        })
    }

    /// Name of a case: the program alone if there is only one input.
    pub(crate) fn case_name(&self, program: &ProgramSpec, input: &Input) -> String {
        match self.inputs.len() {
            1 => program.name.clone(),
            _ => format!("{}/{}", program.name, input.name),
        }
    }

    /// Selected programs of `spec`. Fails if a name matches none, or only parts of several names.
    pub fn choose<'a>(&self, spec: &'a Spec) -> Result<Vec<&'a ProgramSpec>, SpecError> {
        if self.programs.is_empty() {
            return Ok(spec.programs().iter().collect());
        }
        self.programs.iter().map(|name| find(spec, name)).collect()
    }
}

/// The program of that name, or the only one whose name ends with it or contains it.
pub fn find<'a>(spec: &'a Spec, name: &str) -> Result<&'a ProgramSpec, SpecError> {
    let exact = spec.program(name);
    let only = |matches: &dyn Fn(&str) -> bool| {
        let mut those = spec.programs().iter().filter(|program| matches(&program.name));
        those.next().filter(|_| those.next().is_none())
    };
    exact.or_else(|error| {
        let ends = || only(&|known| !name.is_empty() && known.ends_with(name));
        let contains = || only(&|known| !name.is_empty() && known.contains(name));
        ends().or_else(contains).ok_or(error)
    })
}
