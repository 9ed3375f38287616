//! How a step of a program ends: with a value, or with the reason why it cannot be done.

use std::borrow::Cow;

/// Why something cannot be done.
pub type Reason = Cow<'static, str>;

/// What one step comes to.
pub type Step<T> = Result<T, Reason>;
