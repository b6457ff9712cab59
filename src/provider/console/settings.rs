//! `/console/settings`: the settings with their sources, the changes of the file on disk, and the reload.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{Method, StatusCode};

use crate::console::{ConsoleUser, confirmation, kept_form};
use crate::request::ProviderRequest as _;
use crate::submission;
use crate::submission::Effect;
use sealgate_config::{Config, EffectiveSetting, section_names};
use sealgate_core::reload::{PendingReload, ReloadFault, ReloadRequest};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::AuditKind;
use sealgate_domain::oauth::params::Params;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_pages::console::{
    ElementLink, FileState, ReloadPage, SectionLink, SettingChange, SettingsHome, SettingsList, SettingsPage,
};
use sealgate_pages::{Done, html};

const PAGE: &str = "/console/settings";

/// Number of settings on one page. It keeps the page below 40 KiB.
const SETTINGS_PER_PAGE: usize = 20;

/// Maximum number of elements of a list that have links.
const MAX_ELEMENTS: usize = 200;

/// Maximum number of changed settings that a page names, and of errors of the file.
const MAX_CHANGES: usize = 50;

/// Maximum length of a search text, in bytes.
const MAX_TEXT_BYTES: usize = 200;

/// Field of the confirmation with the fingerprint of the confirmed configuration.
const FINGERPRINT: &str = "fingerprint";

/// Name in the URL of the section of keys outside the sections.
const GENERAL: &str = "general";

/// Shows the settings (GET), or the plan of a reload, or reloads the configuration (POST).
pub(super) async fn settings_page(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    if ctx.head.method != Method::POST {
        if let Some(form) = kept_form::take(ctx, console_user, PAGE).await? {
            return plan(ctx, console_user, &form, false).await;
        }
        return show(ctx, console_user).await;
    }
    let form = console_user.form(ctx)?;
    let fingerprint = form.one(FINGERPRINT)?.unwrap_or_default().to_owned();
    if !confirmation::is_confirmed(&form) {
        return plan(ctx, console_user, &form, false).await;
    }
    let work = Box::pin(async {
        let event = console_user.event(ctx, AuditKind::ConfigurationReloaded);
        let store = Arc::clone(&ctx.sealgate.store);
        match ctx.sealgate.reload.reload(ReloadRequest::new(event, fingerprint, store)).await {
            Ok(changed) => {
                let changed: Vec<String> = changed.into_iter().take(MAX_CHANGES).collect();
                let page = format!("{PAGE}?done={}", Done::Reloaded.as_str());
                Ok(Effect::Done { page, secret: Some(Secret::new(changed.join("\n"))) })
            }
            Err(ReloadFault::ChangedMeanwhile) => Ok(Effect::Refused(plan(ctx, console_user, &form, true).await?)),
            Err(ReloadFault::NotPermitted(error)) => Err(error.into()),
            Err(ReloadFault::Refused(lines)) => {
                Ok(Effect::Refused(home(ctx, console_user, &[], Some(&FileState::Faulty(lines))).await))
            }
        }
    });
    submission::once(ctx, &console_user.visitor, &form, work).await
}

async fn show(ctx: &RequestContext<'_>, console_user: &ConsoleUser) -> Result<Response, Failure> {
    let wanted = Wanted::read(ctx)?;
    if wanted.find.is_empty() && wanted.section.is_none() {
        let result = submission::take_result(ctx, &console_user.visitor, PAGE).await?;
        let changed = result.secret().map(Secret::expose).unwrap_or_default();
        let changed: Vec<&str> = changed.lines().collect();
        return Ok(home(ctx, console_user, &changed, None).await);
    }
    Ok(list(ctx, console_user, &wanted))
}

/// Part of the settings that the query selects.
struct Wanted {
    find: String,
    section: Option<&'static str>,
    /// Number of the element of a list.
    element: usize,
    /// Number of the page, from 1.
    page: usize,
}

impl Wanted {
    fn read(ctx: &RequestContext<'_>) -> Result<Self, Failure> {
        let query = ctx.query()?;
        let number =
            |name| -> Result<Option<usize>, Failure> { Ok(query.one(name)?.and_then(|text| text.parse().ok())) };
        let find = query.one("find")?.unwrap_or_default().trim();
        let section = query.one("section")?;
        let section = section.map(|name| if name == GENERAL { "" } else { name });
        Ok(Self {
            find: if find.len() <= MAX_TEXT_BYTES { find.to_owned() } else { String::new() },
            section: section.and_then(|name| section_names().into_iter().find(|known| *known == name)),
            element: number("element")?.unwrap_or_default(),
            page: number("page")?.unwrap_or(1).max(1),
        })
    }

    /// Returns the URL of another page of the same settings.
    fn url(&self, ctx: &RequestContext<'_>, element: usize, page: usize) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(section) = self.section {
            query.append_pair("section", if section.is_empty() { GENERAL } else { section });
        }
        if !self.find.is_empty() {
            query.append_pair("find", &self.find);
        }
        for (name, number, first) in [("element", element, 0), ("page", page, 1)] {
            if number != first {
                query.append_pair(name, &number.to_string());
            }
        }
        ctx.path(&format!("{PAGE}?{}", query.finish()))
    }

    fn selects(&self, setting: &EffectiveSetting) -> bool {
        if let Some(section) = self.section {
            return setting.section == section && setting.element.is_none_or(|element| element == self.element);
        }
        // Keys that are not set are found once, not in each element of a list.
        if setting.source.line().is_none() && setting.element.is_some_and(|element| element > 0) {
            return false;
        }
        let text = format!("{} {} {}", setting.path, setting.value.as_deref().unwrap_or_default(), setting.description)
            .to_lowercase();
        self.find.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

/// Shows the state of the file and the sections.
async fn home(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    changed: &[&str],
    refused: Option<&FileState>,
) -> Response {
    let config = &ctx.sealgate.config;
    let settings = config.settings();
    let sections: Vec<SectionLink> = section_names()
        .into_iter()
        .map(|name| {
            let of_section = || settings.iter().filter(|setting| setting.section == name);
            let elements = of_section().filter_map(|setting| setting.element).max().map(|last| last as u64 + 1);
            SectionLink {
                name: if name.is_empty() { GENERAL } else { name },
                set: of_section().filter(|setting| setting.source.line().is_some()).count() as u64,
                elements,
            }
        })
        .collect();
    let state = match refused {
        Some(_) => None,
        None => Some(file_state(ctx.sealgate.reload.pending().await)),
    };
    let home = SettingsHome {
        file: &config.file.as_ref().map(|file| file.display().to_string()).unwrap_or_default(),
        loaded_at: UnixTime::from_seconds(ctx.sealgate.metrics.configured_at()),
        state: state.as_ref().or(refused).unwrap_or(&FileState::Same),
        is_refused: refused.is_some(),
        changed,
        may_reload: console_user.is_administrator(),
        sections: &sections,
        issuer: config.issuer.as_str(),
    };
    page(ctx, console_user, "", Some(&home), None)
}

fn file_state(pending: Result<PendingReload, Vec<String>>) -> FileState {
    match pending {
        Err(mut faults) => {
            faults.truncate(MAX_CHANGES);
            FileState::Faulty(faults)
        }
        Ok(pending) if pending.difference.is_empty() => FileState::Same,
        Ok(PendingReload { difference, .. }) => {
            let some = |mut names: Vec<String>| {
                names.truncate(MAX_CHANGES);
                names
            };
            FileState::Changed { reloadable: some(difference.reloadable), restart: some(difference.restart) }
        }
    }
}

/// Shows the settings of a section, or the results of a search.
fn list(ctx: &RequestContext<'_>, console_user: &ConsoleUser, wanted: &Wanted) -> Response {
    let settings = ctx.sealgate.config.settings();
    let names = element_names(&settings);
    let found: Vec<&EffectiveSetting> = settings.iter().filter(|setting| wanted.selects(setting)).collect();
    let first = (wanted.page - 1).saturating_mul(SETTINGS_PER_PAGE);
    let lines: Vec<&EffectiveSetting> = found.iter().copied().skip(first).take(SETTINGS_PER_PAGE).collect();
    let elements: Vec<ElementLink> = wanted.section.map_or_else(Vec::new, |section| {
        let of_section = names.iter().filter(|((name, _), _)| *name == section);
        let link = |((_, number), name): (&(&str, usize), &String)| ElementLink {
            name: name.clone(),
            address: wanted.url(ctx, *number, 1),
            is_current: *number == wanted.element,
        };
        of_section.take(MAX_ELEMENTS).map(link).collect()
    });
    let previous = (wanted.page > 1).then(|| wanted.url(ctx, wanted.element, wanted.page - 1));
    let next = (found.len() > first + lines.len()).then(|| wanted.url(ctx, wanted.element, wanted.page + 1));
    let list = SettingsList {
        section: wanted.section.map(|section| if section.is_empty() { GENERAL } else { section }),
        elements: &elements,
        lines: &lines,
        total: found.len() as u64,
        first: first as u64 + 1,
        previous: previous.as_deref(),
        next: next.as_deref(),
    };
    page(ctx, console_user, &wanted.find, None, Some(&list))
}

fn page(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    find: &str,
    home: Option<&SettingsHome<'_>>,
    list: Option<&SettingsList<'_>>,
) -> Response {
    let page = SettingsPage { inside: console_user.inside(ctx), csrf: &console_user.csrf(ctx), find, home, list };
    Response::page(StatusCode::OK, html(&page), None)
}

/// Returns the names of the elements of lists: the value of `name` or `id`, or the number from 1.
fn element_names(settings: &[EffectiveSetting]) -> BTreeMap<(&'static str, usize), String> {
    let mut names = BTreeMap::new();
    for setting in settings {
        let Some(element) = setting.element else { continue };
        let name = names.entry((setting.section, element)).or_insert_with(|| (element + 1).to_string());
        let is_name = ["name", "id"].iter().any(|key| setting.path == format!("{}[{element}].{key}", setting.section));
        if let Some(value) = setting.value.as_ref().filter(|_| is_name) {
            value.trim_matches(['"', '\'']).clone_into(name);
        }
    }
    names
}

/// Lists the changes of a reload, and asks for the confirmation. If the file cannot be loaded, shows
/// the page of the settings with the reasons.
async fn plan(
    ctx: &RequestContext<'_>,
    console_user: &ConsoleUser,
    form: &Params,
    has_changed: bool,
) -> Result<Response, Failure> {
    let PendingReload { config, difference } = match ctx.sealgate.reload.pending().await {
        Ok(pending) if pending.difference.restart.is_empty() => pending,
        pending => return Ok(home(ctx, console_user, &[], Some(&file_state(pending))).await),
    };
    let (changes, more) = changes(&ctx.sealgate.config, &config);
    let inside = console_user.inside(ctx);
    let once = inside.once.clone();
    let fingerprint = config.fingerprint();
    let mut fields = confirmation::fields(form, &once);
    fields.retain(|(name, _)| *name != FINGERPRINT);
    fields.push((FINGERPRINT, &fingerprint));
    let names: Vec<&str> = difference.reloadable.iter().take(MAX_CHANGES).map(String::as_str).collect();
    let page = ReloadPage {
        inside,
        csrf: &console_user.csrf(ctx),
        node: ctx.sealgate.config.cluster.as_ref().map(|cluster| cluster.node.as_str()),
        names: &names,
        changes: &changes,
        more,
        has_changed,
        fields: &fields,
    };
    Ok(Response::page(StatusCode::OK, html(&page), None))
}

/// Returns the settings with another value, and the number of further ones.
fn changes(before: &Config, after: &Config) -> (Vec<SettingChange>, u64) {
    let (before, after) = (labelled(before), labelled(after));
    let labels: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let different = labels.into_iter().filter(|label| before.get(*label) != after.get(*label));
    let mut changes: Vec<SettingChange> = different
        .map(|label| SettingChange {
            key: label.clone(),
            before: before.get(label).cloned().unwrap_or_default(),
            after: after.get(label).cloned().unwrap_or_default(),
        })
        .collect();
    let more = changes.len().saturating_sub(MAX_CHANGES);
    changes.truncate(MAX_CHANGES);
    (changes, more as u64)
}

/// Returns the values of the settings. Elements of lists are named, so that an inserted element does
/// not seem to change the elements after it. Hidden values are empty.
fn labelled(config: &Config) -> BTreeMap<String, Option<String>> {
    let settings = config.settings();
    let names = element_names(&settings);
    let label = |setting: &EffectiveSetting| match setting.element {
        Some(element) => {
            let name = names.get(&(setting.section, element)).map_or("", String::as_str);
            setting.path.replacen(&format!("[{element}]"), &format!(" {name}"), 1)
        }
        None => setting.path.clone(),
    };
    let has_value = |setting: &&EffectiveSetting| setting.element.is_none() || setting.source.line().is_some();
    settings.iter().filter(has_value).map(|setting| (label(setting), setting.value.clone())).collect()
}
