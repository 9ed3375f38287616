//! What the example profiler does with each sample.
//!
//! This is the part of the user half that runs once per sample. It is a library of its own, apart
//! from the kernel and the ring buffer, so that a benchmark can call it.
//!
//! The feature `oops` adds a regression for profilers to find and benchmarks to catch.

#[cfg(feature = "oops")]
mod oops;
mod sample;

pub use sample::{Sample, SampleError};

/// Decodes the bytes of a sample and logs it as one line, at level `info`.
///
/// # Errors
///
/// When the bytes are not a sample as the kernel half writes it; nothing is logged then.
pub fn process_sample(bytes: &[u8]) -> Result<Sample, SampleError> {
    #[cfg(feature = "oops")]
    oops::_oops();
    let sample = Sample::decode(bytes)?;
    log::info!("{sample}");
    Ok(sample)
}
