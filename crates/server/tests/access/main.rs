//! Who may do what, and how somebody proves to be who: through the router, with databases in a folder.

mod bounds;
mod invitations;
mod keys;
#[path = "../common/place.rs"]
mod place;
mod profiles;
mod rights;
mod sign_in;
mod support;
