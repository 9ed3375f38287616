//! Fuzzes `profiler::perf_map`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::perf_map);
