//! Fuzzes `results::agent_rules`.
#![cfg_attr(fuzzing, no_main)]
wingbeat_fuzz::target!(results::agent_rules);
