//! Fuzzes `profiler::names`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::names);
