//! Fuzzes `bpf::map_contents`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::map_contents);
