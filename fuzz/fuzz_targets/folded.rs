//! Fuzzes `profiles::folded`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::folded);
