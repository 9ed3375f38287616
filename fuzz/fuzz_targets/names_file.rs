//! Fuzzes `profiler::names_file`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::names_file);
