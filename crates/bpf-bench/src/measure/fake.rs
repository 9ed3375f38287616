//! A fake kernel: runs take the time that a test defines, on a clock that only they advance.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    time::{Duration, Instant},
};

use wingbeat_bpf_loader::{
    ProgramType,
    code::Code,
    loader::{ProgramRun, RunError},
    spec::Linked,
};
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    alternation::Bursts,
    empty_baseline::BASELINE,
    feeding::Row,
    runner::{Alternation, Facts, Form, Given, Leaves, Pace, Runner, Subject},
};
use crate::{
    counts::{Counts, TailCalls},
    instrument::wrapper::Recorded,
    result::{Size, Verifier},
};

/// Burst pairs per sample, and its time without loading.
const BURSTS: usize = 20;
const SAMPLE: Duration = Duration::from_millis(10);

/// Behaviour of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behaviour {
    pub(super) run_ns: u64,
    pub(super) load: Duration,
    /// Whether it can alternate with another one.
    pub(super) alternates: bool,
    pub(super) refused: bool,
    /// Number of the run that fails, from 1.
    pub(super) fails_at: Option<u32>,
    /// Duration of all runs of a call after the first, if the program changes its packet so that
    /// later runs return at once.
    pub(super) own_output_ns: Option<u64>,
    pub(super) can_be_put_back: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            run_ns: 100,
            load: Duration::from_millis(1),
            alternates: false,
            refused: false,
            fails_at: None,
            own_output_ns: None,
            can_be_put_back: false,
        }
    }
}

/// Fixed cost of a call.
pub(super) const CALL_NS: u64 = 1_000;

/// Programs, the time, and a log of actions.
pub(super) struct World {
    behaviours: HashMap<String, Behaviour>,
    base: Instant,
    passed: Cell<Duration>,
    deadline: Cell<Option<Instant>>,
    /// Time of a simulated Ctrl-C.
    pub(super) stop_at: Option<Duration>,
    pub(super) are_runs_counted: bool,
    runs: Cell<u64>,
    pub(super) log: RefCell<Vec<String>>,
}

impl World {
    pub(super) fn new(programs: &[(&str, Behaviour)]) -> Self {
        let baseline = Behaviour { run_ns: 1, ..Behaviour::default() };
        let programs = programs.iter().copied().chain([(BASELINE, baseline)]);
        let programs = programs.map(|(name, behaviour)| (name.to_owned(), behaviour));
        Self {
            behaviours: programs.collect(),
            base: Instant::now(),
            passed: Cell::default(),
            deadline: Cell::default(),
            stop_at: None,
            are_runs_counted: false,
            runs: Cell::default(),
            log: RefCell::default(),
        }
    }

    pub(super) fn begun(&self) -> Instant {
        self.base
    }

    /// Programs with these names.
    pub(super) fn linked(names: &[&str]) -> Vec<Linked> {
        let linked = |name: &&str| {
            wingbeat_bpf_testing::linked(name, ProgramType::SCHED_CLS, Code::default())
        };
        names.iter().map(linked).collect()
    }

    fn note(&self, what: &str, name: &str) {
        self.log.borrow_mut().push(format!("{what} {name}"));
    }

    /// Advances the time, up to the deadline. Returns whether that was enough.
    fn pass(&self, time: Duration) -> bool {
        let after = self.passed.get().saturating_add(time);
        let deadline = self.deadline.get().map(|at| at.saturating_duration_since(self.base));
        let ends = deadline.into_iter().chain(self.stop_at).min();
        let end = ends.unwrap_or(Duration::MAX).max(self.passed.get());
        self.passed.set(after.min(end));
        after < end
    }
}

impl<'a> Runner<'a> for &'a World {
    /// Prefix of the names of an object's programs in [`World::new`].
    type Source = &'static str;
    type Subject = FakeSubject<'a>;
    type Alternation = FakeAlternation<'a>;

    fn now(self) -> Instant {
        self.base + self.passed.get()
    }

    fn set_deadline(self, deadline: Option<Instant>) {
        self.deadline.set(deadline);
    }

    fn is_over(self) -> bool {
        self.is_stopped() || self.deadline.get().is_some_and(|deadline| self.now() >= deadline)
    }

    fn is_stopped(self) -> bool {
        self.stop_at.is_some_and(|at| self.passed.get() >= at)
    }

    fn within<T>(self, limit: Duration, job: impl FnOnce() -> T) -> T {
        let before = self.deadline.get();
        let limited = self.now().checked_add(limit);
        self.deadline.set(before.into_iter().chain(limited).min());
        let done = job();
        self.deadline.set(before);
        done
    }

    fn load(self, linked: &'a Linked, object: &'static str) -> Result<FakeSubject<'a>, BenchError> {
        let name = &linked.program.name;
        let behaviour = self.behaviours.get(&format!("{object}{name}"));
        let behaviour = behaviour.copied().unwrap_or_default();
        self.note("load", name);
        if behaviour.refused {
            return Err(BenchError::NotMeasurable("the verifier refuses it".to_owned()));
        }
        if !self.pass(behaviour.load) {
            return Err(time_over());
        }
        let not_yet = || Err("not yet".to_owned());
        Ok(FakeSubject {
            world: self,
            linked,
            behaviour,
            pace: Pace::Long,
            forms: [not_yet(), not_yet()],
            runs: Cell::new(0),
        })
    }

    fn verify(self, linked: &'a Linked, object: &'static str) -> Result<Facts, BenchError> {
        Ok(self.load(linked, object)?.facts())
    }

    fn alternate(
        self,
        sides: [&FakeSubject<'a>; 2],
        _: Given<'a>,
        (_, leaves): (f64, Leaves),
        _: &mut Random,
    ) -> Result<FakeAlternation<'a>, String> {
        let [first, second] = sides.map(|side| side.behaviour);
        self.note("pair", sides[1].name());
        if leaves.is_changed() && !second.can_be_put_back {
            return Err("its packet cannot be put back".to_owned());
        }
        self.pass(second.load);
        match second.alternates {
            true => {
                Ok(FakeAlternation { world: self, sides: [first, second], name: sides[1].name() })
            }
            false => Err("it cannot alternate".to_owned()),
        }
    }
}

fn time_over() -> BenchError {
    BenchError::Run(RunError::TimeOver(Duration::ZERO))
}

/// A program in three forms.
pub(super) struct FakeSubject<'a> {
    world: &'a World,
    linked: &'a Linked,
    behaviour: Behaviour,
    pace: Pace,
    /// Whether each [`Form`] exists, or why not.
    forms: [Result<(), String>; 2],
    runs: Cell<u32>,
}

impl FakeSubject<'_> {
    /// Return value of the last of `runs` runs of one call.
    fn returned(&self, runs: u32) -> u32 {
        if runs > 1 && self.behaviour.own_output_ns.is_some() { 1 } else { 2 }
    }

    fn run_form(&self, (input, _): Given<'_>, repeat: u32) -> Result<ProgramRun, BenchError> {
        let run_ns = self.behaviour.run_ns;
        self.runs.set(self.runs.get() + 1);
        self.world.runs.set(self.world.runs.get() + 1);
        if self.behaviour.fails_at == Some(self.runs.get()) {
            return Err(BenchError::NotMeasurable("it returned an error".to_owned()));
        }
        let later_ns = self.behaviour.own_output_ns.unwrap_or(run_ns);
        let runs_ns = run_ns.saturating_add(later_ns.saturating_mul(u64::from(repeat) - 1));
        let time_ns = runs_ns.saturating_add(CALL_NS);
        if !self.world.pass(Duration::from_nanos(time_ns)) {
            return Err(time_over());
        }
        let mut data = input.data.clone();
        if self.behaviour.own_output_ns.is_some() {
            data.push(0);
        }
        Ok(ProgramRun {
            return_value: self.returned(repeat),
            data,
            has_changed_context: false,
            runs: repeat,
            mean_ns: u32::try_from(runs_ns / u64::from(repeat)).unwrap_or(u32::MAX),
            cpu_time_ns: time_ns,
            elapsed_ns: time_ns,
            retries: 0,
        })
    }

    fn load_form(&self, what: &str) -> Result<(), String> {
        self.world.note(what, &self.linked.program.name);
        match self.world.pass(self.behaviour.load) {
            true => Ok(()),
            false => Err("the time ran out".to_owned()),
        }
    }
}

impl<'a> Subject<'a> for FakeSubject<'a> {
    fn linked(&self) -> &'a Linked {
        self.linked
    }

    fn context<'c>(&self, given: &'c [u8]) -> &'c [u8]
    where
        'a: 'c,
    {
        given
    }

    fn load_time(&self) -> Duration {
        self.behaviour.load
    }

    fn whole_load_time(&self) -> Duration {
        self.behaviour.load
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn facts(&self) -> Facts {
        let size = Size { xlated_bytes: 16, jited_bytes: 32, ..Size::default() };
        Facts { verifier: Verifier::default(), size, made_up_context: None }
    }

    fn run_count(&self) -> u64 {
        if self.world.are_runs_counted { self.world.runs.get() } else { 0 }
    }

    fn tail_calls(&self, _: Option<&Counts>) -> TailCalls {
        TailCalls::default()
    }

    fn profile(&self, _: &Counts) -> Option<Vec<u8>> {
        None
    }

    fn reset(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn reload(&mut self) -> Result<(), BenchError> {
        self.load_form("reload").map_err(|_| time_over())
    }

    fn run_first(&mut self, given: Given<'_>) -> Result<ProgramRun, BenchError> {
        self.world.note("first run", self.name());
        let run = self.run(given, 1)?;
        self.pace = Pace::of(&run);
        Ok(run)
    }

    fn run(&self, given: Given<'_>, repeat: u32) -> Result<ProgramRun, BenchError> {
        if repeat > 100 {
            self.world.note("batch", self.name());
        }
        self.run_form(given, repeat)
    }

    fn add(&mut self, form: Form) {
        self.forms[form as usize] = self.load_form(match form {
            Form::Counted => "add counters to",
            Form::Clocked => "put a clock around",
        });
    }

    fn leave_out(&mut self, form: Form, reason: String) {
        self.forms[form as usize] = Err(reason);
    }

    fn missing(&self, form: Form) -> Option<&str> {
        self.forms[form as usize].as_ref().err().map(String::as_str)
    }

    fn first_counts(&self, given: Given<'_>) -> Result<(ProgramRun, Counts), BenchError> {
        self.world.note("count", self.name());
        let counts = Counts { runs: 1, executed: vec![7], ..Counts::default() };
        Ok((self.run(given, 1)?, counts))
    }

    fn run_counted(
        &self,
        given: Given<'_>,
        runs: u32,
    ) -> Result<(ProgramRun, Option<u64>), BenchError> {
        let later = if self.behaviour.own_output_ns.is_some() { 2 } else { 7 };
        Ok((self.run_form(given, runs)?, Some(7 + later * (u64::from(runs) - 1))))
    }

    fn run_calls(&self, given: Given<'_>, runs: u32) -> Result<Row, BenchError> {
        let all = u64::from(runs) * 7;
        let last = self.run_form(given, 1)?;
        Ok(Row { instructions: Some(all), last_instructions: Some(7), last, changes: 0 })
    }

    fn unpredictable_calls(&self) -> Vec<String> {
        Vec::new()
    }

    fn move_clocked(&mut self) {}

    fn run_clocked(
        &self,
        given: Given<'_>,
        runs: u32,
        _: Leaves,
    ) -> Result<Option<Recorded>, BenchError> {
        if self.missing(Form::Clocked).is_some() {
            return Ok(None);
        }
        self.run(given, runs)?;
        Ok(Some(Recorded::of(&[(self.behaviour.run_ns, runs.into())])))
    }
}

/// Two alternating programs.
pub(super) struct FakeAlternation<'a> {
    world: &'a World,
    sides: [Behaviour; 2],
    name: &'a str,
}

impl Alternation for FakeAlternation<'_> {
    fn run_bursts(&self, random: &mut Random) -> Result<Bursts, BenchError> {
        self.world.note("bursts", self.name);
        if !self.world.pass(self.sample_time()) {
            return Err(time_over());
        }
        let mut times = Vec::new();
        for _ in 0..BURSTS {
            let first = u8::from(random.coin());
            let burst = |side: u8| (side, self.sides[usize::from(side)].run_ns as f64);
            times.extend([burst(first), burst(1 - first)]);
        }
        let mut bursts = Bursts::of(&times);
        bursts.returned = self.sides[1].can_be_put_back.then_some(2);
        Ok(bursts)
    }

    fn calls(&self, _: usize) -> u32 {
        100
    }

    fn sample_time(&self) -> Duration {
        self.sides[1].load + SAMPLE
    }
}
