//! Fuzzes `profiles::gopclntab`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(profiles::gopclntab);
