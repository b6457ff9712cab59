//! Output of the checks of directories and upstream providers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::output::printable;
use sealgate_domain::source::SourceEntry;
use sealgate_domain::source_check::{CheckStep, CheckStepOutcome};

/// Check of a source of users.
pub(super) struct CheckedSource {
    pub(super) name: String,
    pub(super) steps: Vec<CheckStep>,
    /// User as it would be stored, with the id in the form of the source.
    pub(super) user: Option<(String, SourceEntry)>,
}

impl CheckedSource {
    /// Returns whether no step failed.
    pub(super) fn has_passed(&self) -> bool {
        self.steps.iter().all(|step| step.outcome != CheckStepOutcome::Failed)
    }

    pub(super) fn as_json(&self) -> Value {
        let step = |CheckStep { subject, outcome, text }: &CheckStep| json!({ "subject": subject, "outcome": outcome.as_str(), "text": text });
        let steps: Vec<_> = self.steps.iter().map(step).collect();
        let mut value = json!({ "name": self.name, "ok": self.has_passed(), "steps": steps });
        if let Some((shown_id, user)) = &self.user {
            let SourceEntry { id: _, username, email, email_verified, name, phone_number, groups, state } = user;
            value["user"] = json!({
                "id": shown_id, "username": username, "email": email, "email_verified": email_verified, "name": name,
                "phone_number": phone_number, "groups": groups, "state": state,
            });
        }
        value
    }

    pub(super) fn as_text(&self) -> String {
        let mut text = String::new();
        for CheckStep { subject, outcome, text: found } in &self.steps {
            let word = match outcome {
                CheckStepOutcome::Passed => "ok",
                CheckStepOutcome::Warning => "warning",
                CheckStepOutcome::Failed => "error",
            };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}", printable(&format!("{word}: {}: {subject}: {found}", self.name)));
        }
        if let Some(Value::Object(user)) = self.as_json().get("user") {
            for (member, value) in user {
                let value = match value {
                    Value::String(value) => value.clone(),
                    Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                let _ = writeln!(text, "{}", printable(format!("  {member}: {value}").trim_end()));
            }
        }
        text
    }
}
