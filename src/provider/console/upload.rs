//! Forms with a file (`multipart/form-data`, RFC 7578).

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use multer::{Constraints, Multipart, SizeLimit};
use url::form_urlencoded;

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::Problem;

/// Maximum number of fields, with the file.
const MAX_FIELDS: usize = 8;

/// Maximum length of a field that is no file, in bytes.
const MAX_FIELD_LENGTH: u64 = 4096;

/// Name of the field with the file.
const FILE: &str = "logo";

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
        // The limit of the request's body limits the file.
        let sizes = SizeLimit::new().per_field(MAX_FIELD_LENGTH).for_field(FILE, body.len() as u64);
        let constraints = Constraints::new().size_limit(sizes);
        let mut form = Multipart::with_reader_with_constraints(body, boundary, constraints);
        let (mut fields, mut file, mut count) = (form_urlencoded::Serializer::new(String::new()), None, 0);
        while let Some(field) = form.next_field().await.ok()? {
            count += 1;
            let name = field.name()?.to_owned();
            if count > MAX_FIELDS || (name == FILE && file.is_some()) {
                return None;
            }
            let content = field.bytes().await.ok()?;
            if name == FILE {
                file = Some(content);
            } else {
                fields.append_pair(&name, std::str::from_utf8(&content).ok()?);
            }
        }
        let fields = Params::parse(fields.finish().as_bytes()).ok()?;
        // Browsers send an empty file if none was chosen.
        Some(Self { fields, file: file.filter(|file| !file.is_empty()) })
    }
}
