//! Fuzzes `profiler::jitdump_unwinding`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::jitdump_unwinding);
