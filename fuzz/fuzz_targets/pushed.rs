//! Fuzzes `profiles::pushed`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::pushed);
