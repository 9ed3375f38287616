//! Test program for Grafana's Rust client.
//!
//! - `wingbeat-rust-client URL KEY` profiles itself with it for twelve seconds.
//! - `wingbeat-rust-client decode FILE` decodes the body of a push with the client's types, generated from Pyroscope's
//! schema, and prints it as JSON.

mod decode;

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use pyroscope::{
    backend::{BackendConfig, PprofConfig, pprof_backend},
    pyroscope::PyroscopeAgentBuilder,
};

#[inline(never)]
fn hot(numbers: u64) -> u64 {
    (0..numbers).fold(0, |sum, number| black_box(sum ^ number.wrapping_mul(number)))
}

#[inline(never)]
fn work(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        black_box(hot(black_box(100_000)));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(key)) = (arguments.next(), arguments.next()) else {
        return Err("usage: wingbeat-rust-client URL KEY | decode FILE".into());
    };
    if url == "decode" {
        return decode::print(key.as_ref());
    }
    let backend = pprof_backend(PprofConfig::default(), BackendConfig::default());
    let agent = PyroscopeAgentBuilder::new(url, "rust.app", 100, "pyroscope-rs", "2.1.5", backend)
        .basic_auth("anybody", key)
        .tags(vec![("region", "north")])
        .build()?;
    let running = agent.start()?;
    work(Duration::from_secs(12));
    running.stop()?.shutdown();
    Ok(())
}
