//! The kernel as what a measurement is made with.

use std::time::{Duration, Instant};

use wingbeat_bpf::{loader::Loader, spec::Linked};
use wingbeat_stats::random::Random;

use super::{
    BenchError,
    alternation::Image,
    contents::Contents,
    kernel::Kernel,
    runner::{Facts, Given, Runner},
    subject::KernelSubject,
};

impl<'a> Runner<'a> for Kernel<'a> {
    type Source = (&'a Loader, &'a Contents);
    type Subject = KernelSubject<'a>;
    type Alternation = Image<'a>;

    fn now(self) -> Instant {
        Instant::now()
    }

    fn set_deadline(self, deadline: Option<Instant>) {
        self.alarm.set(deadline);
    }

    fn is_over(self) -> bool {
        self.alarm.is_over()
    }

    fn is_stopped(self) -> bool {
        self.alarm.is_stopped()
    }

    fn within<T>(self, limit: Duration, job: impl FnOnce() -> T) -> T {
        self.alarm.within(limit, job)
    }

    fn load(self, linked: &'a Linked, from: Self::Source) -> Result<KernelSubject<'a>, BenchError> {
        KernelSubject::new(linked, from, self)
    }

    fn verify(self, linked: &'a Linked, (loader, _): Self::Source) -> Result<Facts, BenchError> {
        let maps = loader.create_maps_for(&[&linked.code], false)?;
        let descriptors = maps.descriptors();
        let loaded =
            loader.load_with(&linked.program, &linked.code, &descriptors, self.effort())?;
        Ok(Facts {
            verifier: loaded.verifier,
            info: loaded.info,
            map_memory_bytes: maps.memory_bytes(),
            made_up_context: None,
        })
    }

    fn alternate(
        self,
        sides: [&KernelSubject<'a>; 2],
        given: Given<'a>,
        run_ns: f64,
        random: &mut Random,
    ) -> Result<Image<'a>, String> {
        Image::new(sides.map(KernelSubject::side), given, run_ns, self, random)
    }
}
