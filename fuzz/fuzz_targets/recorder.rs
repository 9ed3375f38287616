//! Fuzzes `records::recorder`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(records::recorder);
