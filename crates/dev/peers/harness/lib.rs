//! Nothing: only the benchmarks matter.
