//! Fuzzes `bpf::btf`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::btf);
