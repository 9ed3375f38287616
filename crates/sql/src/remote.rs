//! The PostgreSQL backend.

pub(crate) mod session;
mod tls;
pub(crate) mod value;
