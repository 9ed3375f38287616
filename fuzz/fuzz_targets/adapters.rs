//! Fuzzes `results::adapters`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(results::adapters);
