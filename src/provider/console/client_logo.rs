//! `/console/clients/{client_id}/logo`: upload and removal of a client's logo.

use http::{Method, StatusCode};

use crate::console::actions::ClientLogoAction;
use crate::console::client::{self, ClientNotes, execute};
use crate::console::{ConsoleUser, segment_before_last};
use crate::visitor;
use sealgate_admin::client_settings::ClientSettings;
use sealgate_admin::command::{ClientCommand, Command};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::client::ClientId;
use sealgate_domain::client_logo::LogoPicture;
use sealgate_pages::console::{ClientRefusal, ClientSection};
use sealgate_pages::{Done, Problem};

/// Shows the logo (GET), or changes it (POST).
pub(super) async fn logo_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let client = console_user.client(ctx, ClientId::from_path_segment(segment_before_last(ctx))).await?;
    if !ClientSection::Logo.fits(&client) || !console_user.may_change(&client) {
        return Err(Failure::Page(StatusCode::NOT_FOUND, Problem::NotFound));
    }
    if ctx.head.method != Method::POST {
        return client::show_section(ctx, console_user, &client, ClientSection::Logo).await;
    }
    let upload = console_user.upload(ctx).await?;
    let picture = match (ClientLogoAction::read(&upload.fields)?, upload.file) {
        (ClientLogoAction::Remove, _) => Ok(None),
        (ClientLogoAction::Set, None) => Err(ClientRefusal::NoLogo),
        (ClientLogoAction::Set, Some(file)) => LogoPicture::parse(file.into()).map(Some).map_err(ClientRefusal::Logo),
    };
    let picture = match picture {
        Ok(picture) => picture,
        Err(refused) => {
            let notes = ClientNotes::refused(ClientSection::Logo, refused);
            return client::show(ctx, console_user, &client, &notes).await;
        }
    };
    let settings = Box::new(ClientSettings::of_logo(picture));
    let set = ClientCommand::Set { client: client.id.clone().into(), settings };
    execute(ctx, console_user, Command::Client(set)).await?;
    let page = ClientSection::Logo.page(client.id.path_segment());
    Ok(Response::see_other(&visitor::done(ctx, &page, Done::Client)))
}
