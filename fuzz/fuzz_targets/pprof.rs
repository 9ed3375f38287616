//! Fuzzes `profiles::pprof`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::pprof);
