//! Fuzzes `agent::spool_file`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(agent::spool_file);
