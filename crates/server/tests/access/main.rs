//! Authentication and authorization: through the router, with databases in a folder.

mod bounds;
mod invitations;
mod keys;
#[path = "../common/place.rs"]
mod place;
mod profiles;
mod rights;
mod sign_in;
mod support;
