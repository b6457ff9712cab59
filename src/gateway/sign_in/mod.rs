//! Sign-in of browsers: redirect to the provider and back, including a form that was submitted
//! before.

pub(crate) mod form;
mod last_page;
pub(crate) mod login;
pub(crate) mod redirect_loop;
pub(crate) mod replay;
pub(crate) mod return_path;
mod saved_form;
