//! Fuzzes `bpf::object_file`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::object_file);
