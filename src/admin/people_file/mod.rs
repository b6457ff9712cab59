//! Lists of people that other programs wrote: CSV, LDIF and htpasswd, each read into the same rows. Nothing is judged here but
//! the form of the file, and nothing that a file names is opened or fetched. And the list that we write.

mod csv;
mod htpasswd;
mod ldif;
mod reading;
mod row;
mod table;

pub(crate) use reading::{MOST_BYTES, MOST_INVITEE_BYTES, PeopleFormat, PeopleSource, read, read_invitees};
pub(super) use row::PersonRow;
pub(crate) use row::{LineFault, MOST_PEOPLE, PeopleFile};
pub(crate) use table::{write_header, write_row};
