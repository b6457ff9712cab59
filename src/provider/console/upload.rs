//! Forms with a file (`multipart/form-data`, RFC 7578).

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use multer::{Constraints, Multipart, SizeLimit};
use url::form_urlencoded;

use crate::console::import_users;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::Problem;

/// Maximum number of fields, with the file.
const MAX_FIELDS: usize = 8;

/// Maximum length of other fields than [`LONG`], in bytes.
const MAX_FIELD_LENGTH: u64 = 4096;

/// Names of fields with a file. A form has one of them.
const FILES: [&str; 2] = ["logo", "file"];

/// Names of fields that only the limit of the request's body limits.
const LONG: [&str; 3] = ["logo", "file", import_users::FIELD];

/// Form that may have a file.
pub(super) struct Upload {
    /// Fields without the file.
    pub(super) fields: Params,
    /// Content of the file. `None` if no file was chosen.
    pub(super) file: Option<Bytes>,
}

impl Upload {
    /// Reads the form of a request, which may be encoded without a file too.
    ///
    /// # Errors
    /// An error page if the form is malformed or has too many fields.
    pub(super) async fn read(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        if !ctx.is_labelled("multipart/form-data") {
            return Ok(Self { fields: ctx.form()?, file: None });
        }
        let label = ctx.head.headers.get(CONTENT_TYPE).and_then(|label| label.to_str().ok()).unwrap_or_default();
        Self::parse(label, ctx.body()).await.ok_or(Failure::page(Problem::InvalidRequest))
    }

    async fn parse(label: &str, body: &[u8]) -> Option<Self> {
        let boundary = multer::parse_boundary(label).ok()?;
        let sizes = SizeLimit::new().per_field(MAX_FIELD_LENGTH);
        let sizes = LONG.into_iter().fold(sizes, |sizes, name| sizes.for_field(name, body.len() as u64));
        let constraints = Constraints::new().size_limit(sizes);
        let mut form = Multipart::with_reader_with_constraints(body, boundary, constraints);
        let (mut fields, mut file, mut count) = (Vec::new(), None, 0);
        while let Some(field) = form.next_field().await.ok()? {
            count += 1;
            let name = field.name()?.to_owned();
            let is_file = FILES.contains(&name.as_str());
            if count > MAX_FIELDS || (is_file && file.is_some()) {
                return None;
            }
            let content = field.bytes().await.ok()?;
            if is_file {
                file = Some(content);
            } else {
                fields.push((name, String::from_utf8(content.into()).ok()?));
            }
        }
        let fields = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let fields = Params::parse(fields.as_bytes()).ok()?;
        // Browsers send an empty file if none was chosen.
        Some(Self { fields, file: file.filter(|file| !file.is_empty()) })
    }
}
