//! Sign-in of browsers: the redirects to the provider and back, and forms that were submitted
//! before.

pub(crate) mod form;
pub(crate) mod join;
pub(crate) mod login;
pub(crate) mod replay;
pub(crate) mod return_path;
