//! What is known of code that compilers made while their process ran, and of its names.

use serde::Serialize;

use crate::symbolize::refused::Refused;

/// Code of JIT compilers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Jit {
    /// Files whose names were not used.
    pub refused: Vec<Refused>,
}
