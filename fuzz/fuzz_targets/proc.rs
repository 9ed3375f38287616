//! Fuzzes `profiler::proc_text`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::proc_text);
