//! The side of PostgreSQL.

pub(crate) mod session;
mod tls;
pub(crate) mod value;
