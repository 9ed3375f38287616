//! Fuzzes `agent::kubelet_pods`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(agent::kubelet_pods);
