//! Fuzzes `bpf::veristat_csv`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(bpf::veristat_csv);
