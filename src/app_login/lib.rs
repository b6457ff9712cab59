//! Signs users in to applications that cannot switch off their own login form.
//!
//! A [`LoginRecipe`] describes the form of one application. [`sign_in()`] fetches the login page,
//! posts the user's name and password, and returns the application's cookies as a [`CookieJar`].
//! The jar belongs to one session of one user at one application and is never sent to a browser.
//!
//! This crate opens no connection: the caller implements [`LoginExchange`].

mod form;
mod jar;
mod recipe;
mod sign_in;
mod target;

pub use jar::CookieJar;
pub use recipe::LoginRecipe;
pub use sign_in::{
    AppLogin, LoginExchange, LoginFault, LoginOutcome, LoginRequest, LoginStep, LoginStepKind, MAX_PAGE_BYTES, probe,
    sign_in, sign_out,
};
pub use target::LoginTarget;
