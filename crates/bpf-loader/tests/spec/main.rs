//! Parses generated object files: valid ones of every style, and damaged ones, which must be
//! rejected with the reason and never cause a panic. Needs neither kernel nor privileges.

mod accesses;
mod calls;
mod externs;
mod globals;
mod lines;
mod maps;
mod resilience;
mod sample;
mod sections;
mod struct_ops;
mod structure;
mod support;
mod toolchains;
mod types;
