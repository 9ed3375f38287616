//! Fuzzes `profiler::jitdump`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::jitdump);
