//! Fuzzes `bpf::hex_input`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::hex_input);
