//! Fuzzes `profiler::elf`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::elf);
