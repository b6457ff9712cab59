//! `/account`: name, phone number and picture.

use http::{Method, StatusCode};

use crate::visitor;
use crate::visitor::Visitor;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::profile::{MAX_NAME_LENGTH, is_line, is_phone_number, is_picture, picture_origin};
use sealgate_pages::{Done, ProfileField, ProfilePage, html};

const PAGE: &str = "/account";

/// Input of the form.
struct Typed {
    name: String,
    phone_number: String,
    picture: String,
}

impl Typed {
    fn read(form: &Params) -> Result<Self, Failure> {
        let field = |name| -> Result<String, Failure> { Ok(form.one(name)?.unwrap_or_default().trim().to_owned()) };
        Ok(Self { name: field("name")?, phone_number: field("phone_number")?, picture: field("picture")? })
    }

    fn faults(&self) -> Vec<ProfileField> {
        let wrong = [
            (!is_line(&self.name, MAX_NAME_LENGTH), ProfileField::Name),
            (!self.phone_number.is_empty() && !is_phone_number(&self.phone_number), ProfileField::PhoneNumber),
            (!self.picture.is_empty() && !is_picture(&self.picture), ProfileField::Picture),
        ];
        wrong.into_iter().filter(|(wrong, _)| *wrong).map(|(_, field)| field).collect()
    }
}

pub(super) async fn profile_page(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let visitor = Visitor::find(ctx, PAGE).await?;
    if ctx.head.method != Method::POST {
        let user = &visitor.user;
        let typed = Typed {
            name: user.name.clone(),
            phone_number: user.phone_number.clone().unwrap_or_default(),
            picture: user.picture.clone().unwrap_or_default(),
        };
        return Ok(show(ctx, &visitor, &typed, &[]));
    }
    let typed = Typed::read(&visitor.form(ctx, PAGE)?)?;
    let faults = typed.faults();
    if !faults.is_empty() {
        return Ok(show(ctx, &visitor, &typed, &faults));
    }
    let filled = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let (phone_number, picture) = (filled(&typed.phone_number), filled(&typed.picture));
    let changed = ctx.sealgate.store.change_user(visitor.user.sub, |user| {
        let before = (user.name.clone(), user.phone_number.clone(), user.picture.clone());
        // A directory keeps the name and the phone number of its users.
        if user.source.is_none() {
            user.name.clone_from(&typed.name);
            user.phone_number.clone_from(&phone_number);
        }
        user.picture.clone_from(&picture);
        // Clients read the claim `updated_at` to detect changes, so update it only if a field
        // changed.
        if before != (user.name.clone(), user.phone_number.clone(), user.picture.clone()) {
            user.updated_at = ctx.now;
        }
    });
    if let Some(after) = changed.await? {
        let before = &visitor.user;
        let fields = [
            ("name", before.name != after.name),
            ("phone number", before.phone_number != after.phone_number),
            ("picture", before.picture != after.picture),
        ];
        let fields: Vec<&str> = fields.into_iter().filter(|(_, changed)| *changed).map(|(field, _)| field).collect();
        if !fields.is_empty() {
            ctx.sealgate.audit.note(visitor.event(ctx, AuditKind::UserChanged).with_detail(fields.join(", ")));
        }
    }
    Ok(Response::see_other(&visitor::done(ctx, PAGE, Done::Profile)))
}

fn show(ctx: &RequestContext<'_>, visitor: &Visitor, typed: &Typed, faults: &[ProfileField]) -> Response {
    let picture_and_origin =
        visitor.user.picture.as_deref().and_then(|picture| Some((picture, picture_origin(picture)?)));
    let page = ProfilePage {
        inside: visitor.inside(ctx),
        csrf: &visitor.csrf(ctx, PAGE),
        user: &visitor.user,
        upstream: visitor.upstream_label(ctx),
        has_address_page: ctx.sealgate.sends_mail() && visitor.user.source.is_none(),
        name: &typed.name,
        phone_number: &typed.phone_number,
        picture: &typed.picture,
        shown_picture: picture_and_origin.as_ref().map(|(picture, _)| *picture),
        faults,
    };
    let response = Response::page(StatusCode::OK, html(&page), None);
    match &picture_and_origin {
        // Allow the picture's origin in the Content-Security-Policy. Only the user's own page shows
        // the picture, and the browser sends no `Referer` with the request for it.
        Some((_, origin)) => response.showing_from(origin),
        None => response,
    }
}
