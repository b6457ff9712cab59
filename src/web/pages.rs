//! The pages of provider and gate: what frames each of them, and the one that says what went wrong.

use http::StatusCode;

use crate::page::{Chrome, ErrorPage, LanguageSwitch, Problem, Way};
use crate::web::context::RequestContext;
use crate::web::response::Response;

impl RequestContext<'_> {
    /// What frames every page: language, stylesheet, and the same page in the other language.
    pub(crate) fn with_chrome<T>(&self, build: impl FnOnce(&Chrome<'_>) -> T) -> T {
        let (pages, host) = (&self.sealgate.pages, self.host);
        let folder = (host.assets)(&self.sealgate.config);
        let address = |name: &str, version: &str| format!("{folder}{name}?v={version}");
        let stylesheet = address("style.css", &pages.stylesheet().version);
        let script = if host.has_script { address("script.js", &pages.script().version) } else { String::new() };
        let logo = pages.logo().map(|logo| address("logo", &logo.version));
        let (turkish, english) = ((host.in_language)(self, "tr"), (host.in_language)(self, "en"));
        build(&Chrome {
            language: self.language(),
            stylesheet: &stylesheet,
            script: &script,
            logo: logo.as_deref(),
            switch: LanguageSwitch { turkish: &turkish, english: &english },
        })
    }

    /// A page that says what went wrong.
    pub(crate) fn problem(&self, status: StatusCode, problem: Problem) -> Response {
        let (address, to) = (self.host.way)(self, problem);
        let way = Way { address: &address, to };
        let content = ErrorPage { problem, request_id: &self.origin.request_id, way };
        let html = self.with_chrome(|chrome| self.sealgate.pages.error(chrome, &content));
        Response::html(status, html, Some(self.host.form_action))
    }
}
