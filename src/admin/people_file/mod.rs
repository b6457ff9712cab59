//! Lists of users from other programs, and the exported list.
//!
//! CSV, LDIF and htpasswd are read into the same rows. Only the syntax of a file is checked here.
//! Files and URLs that it names are neither opened nor fetched.

mod csv;
mod htpasswd;
mod ldif;
mod reading;
mod row;
mod table;

pub use reading::{MAX_BYTES, MAX_INVITEE_BYTES, PeopleFormat, PeopleSource, read, read_invitees};
pub(crate) use row::MAX_PEOPLE;
pub(super) use row::PersonRow;
pub use row::{LineFault, PeopleFile};
pub use table::{write_header, write_row};
