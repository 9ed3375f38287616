//! Looking at a store through the binary, and moving it: `log`, `alerts`, `plot`, `export`, `import`.

pub(crate) mod support;

mod alerts;
mod exchange;
mod log;
mod plot;
