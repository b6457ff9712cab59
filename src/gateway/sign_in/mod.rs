//! Sign-in of browsers: redirect to the provider and back, including a form that was submitted
//! before.

pub(crate) mod form;
pub(crate) mod login;
pub(crate) mod replay;
pub(crate) mod return_path;
