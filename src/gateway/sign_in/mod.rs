//! Sign-in of browsers: redirect to the provider and back, including a form that was submitted
//! before.

pub(in crate::gateway) mod form;
pub(in crate::gateway) mod login;
pub(in crate::gateway) mod redirect_loop;
pub(in crate::gateway) mod replay;
pub(in crate::gateway) mod return_path;
mod saved_form;
