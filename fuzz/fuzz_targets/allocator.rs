//! Fuzzes `profiler::allocator`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiler::allocator);
