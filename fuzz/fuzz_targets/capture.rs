//! Fuzzes `bpf::capture`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::capture);
