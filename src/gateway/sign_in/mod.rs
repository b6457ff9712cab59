//! Browsers that must sign in before they may go on: sent to the provider and taken back, with the form that they had sent.

pub(in crate::gateway) mod form;
pub(in crate::gateway) mod login;
pub(in crate::gateway) mod redirect_loop;
pub(in crate::gateway) mod replay;
pub(in crate::gateway) mod return_path;
mod saved_form;
