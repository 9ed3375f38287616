//! Fuzzes `profiler::debuginfod_settings`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::debuginfod_settings);
