//! Fuzzes `results::changes_input`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(results::changes_input);
