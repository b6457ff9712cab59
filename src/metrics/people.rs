//! The series about accounts that people make for themselves.

/// How far somebody came who makes an account for themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RegistrationOutcome {
    /// A mail was put into the outbox.
    Begun,
    /// Too many for the address, from the network or in all: no mail.
    Throttled,
    /// There was no room for another one.
    Dropped,
    WrongCode,
    /// The address was proven.
    Proven,
    /// Somebody had the address by then.
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
