//! Reads and moves a store through the binary: `log`, `alerts`, `plot`, `export`, `import`.

pub(crate) mod support;

mod alerts;
mod exchange;
mod log;
mod plot;
