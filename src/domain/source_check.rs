//! Steps of the checks of directories and upstream providers for administrators.

/// Step of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckStep {
    /// What was checked, such as `ldaps://ldap.example.com:636`.
    pub subject: String,
    pub outcome: CheckStepOutcome,
    /// What was found. For failures and warnings, also what to do.
    pub text: String,
}

/// Outcome of a [`CheckStep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStepOutcome {
    Passed,
    Warning,
    Failed,
}

impl CheckStepOutcome {
    /// Returns the word for JSON output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Warning => "warning",
            Self::Failed => "failed",
        }
    }
}
