//! Metrics of self-registration.

/// Stage that a self-registration reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// A message was put into the outbox.
    Begun,
    /// Rate limited by address, by network or globally; no message was sent.
    Throttled,
    /// The store of pending registrations was full.
    Dropped,
    WrongCode,
    /// The address was verified.
    Proven,
    /// Another account had taken the address meanwhile.
    Taken,
    Created,
}

impl RegistrationOutcome {
    pub(super) const ALL: [Self; 7] =
        [Self::Begun, Self::Throttled, Self::Dropped, Self::WrongCode, Self::Proven, Self::Taken, Self::Created];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Throttled => "throttled",
            Self::Dropped => "dropped",
            Self::WrongCode => "wrong_code",
            Self::Proven => "proven",
            Self::Taken => "taken",
            Self::Created => "created",
        }
    }
}
