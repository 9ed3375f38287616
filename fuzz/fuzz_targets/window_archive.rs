//! Fuzzes `agent::window_archive`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(agent::window_archive);
