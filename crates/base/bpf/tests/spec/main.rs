//! Object files as specs, by objects made for it: sound ones of every style, and damaged ones, which
//! must be refused with the reason and never lead to a panic. It takes no kernel and no rights.

mod accesses;
mod alone;
mod calls;
mod externs;
mod globals;
mod identity;
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
