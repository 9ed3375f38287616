//! Page contents, read from the databases.

pub(super) mod choice;
pub(super) mod compare;
pub(super) mod reference;
pub(super) mod series;
