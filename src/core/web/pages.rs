//! Pages of the provider and the gateway: their frame, and the error page.

use http::StatusCode;

use crate::web::context::RequestContext;
use crate::web::response::Response;
use sealgate_pages::{Addresses, ErrorPage, Frame, PageLink, Problem, html};

impl RequestContext<'_> {
    /// Returns the frame of a page: its language, its assets, and the same page in the other
    /// language.
    pub fn frame(&self) -> Frame<'_> {
        let (pages, host) = (&self.sealgate.pages, self.host);
        let folder = (host.assets)(&self.sealgate.config);
        let address = |name: &str, version: &str| format!("{folder}{name}?v={version}");
        let addresses = Addresses {
            stylesheet: address("style.css", &pages.stylesheet().version),
            script: if host.has_script { address("script.js", &pages.script().version) } else { String::new() },
            return_script: if host.has_script {
                address("return.js", &pages.return_script().version)
            } else {
                String::new()
            },
            logo: pages.logo().map(|logo| address("logo", &logo.version)),
            turkish: (host.in_language)(self, "tr"),
            english: (host.in_language)(self, "en"),
        };
        pages.frame(self.language(), addresses)
    }

    /// Returns an error page.
    pub fn problem(&self, status: StatusCode, problem: Problem) -> Response {
        let (address, to) = (self.host.way)(self, problem);
        let way = PageLink { address: &address, to };
        let page = ErrorPage { frame: self.frame(), problem, request_id: &self.origin.request_id, way };
        Response::html(status, html(&page), Some(self.host.form_action))
    }
}
