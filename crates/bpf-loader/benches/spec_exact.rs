//! Instructions for reading and linking an object file, counted by Valgrind. `cargo xtask track`
//! fails if they increase.

#[path = "../../stats/benches/support/mode.rs"]
mod mode;

use std::{hint::black_box, process::ExitCode};

use wingbeat_bpf_loader::spec::Spec;

fn main() -> ExitCode {
    mode::main(counted::start, || {
        for object in [fun_xdp::OBJECT, fun_xdp::OBJECT_WITH_LOG] {
            parse(object);
            link(&spec(object));
        }
    })
}

fn spec(object: &[u8]) -> Spec {
    Spec::parse("bench.o", object).expect("a sound object")
}

fn parse(object: &[u8]) {
    black_box(spec(black_box(object)));
}

fn link(spec: &Spec) {
    black_box(black_box(spec).link(None).expect("it relocates no types of the kernel"));
}

/// The functions in the form that Gungraun requires: inputs by value.
mod counted {
    use fun_xdp::{OBJECT, OBJECT_WITH_LOG};
    use gungraun::{library_benchmark, library_benchmark_group, main};

    use super::{Spec, spec};

    #[library_benchmark]
    #[bench::fun_xdp(OBJECT)]
    #[bench::fun_xdp_log(OBJECT_WITH_LOG)]
    fn parse(object: &[u8]) {
        crate::parse(object);
    }

    #[library_benchmark]
    #[bench::fun_xdp(spec(OBJECT))]
    #[bench::fun_xdp_log(spec(OBJECT_WITH_LOG))]
    fn link(spec: Spec) {
        crate::link(&spec);
    }

    library_benchmark_group!(name = bpf_spec, benchmarks = [parse, link]);
    main!(library_benchmark_groups = bpf_spec);

    /// Starts the runner, or the benchmark that it requests.
    pub(super) fn start() {
        main();
    }
}
