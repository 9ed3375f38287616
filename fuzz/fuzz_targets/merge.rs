//! Fuzzes `profiles::merge`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::merge);
