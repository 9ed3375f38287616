//! Fuzzes `profiles::callgrind`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::callgrind);
