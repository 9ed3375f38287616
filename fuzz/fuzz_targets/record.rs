//! Fuzzes `records::record`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(records::record);
