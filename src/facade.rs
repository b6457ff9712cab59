//! What this repository's tests, benches and fuzz targets use of the crate, module by module. It is no interface: whoever needs
//! something else here adds it, and the compiler finds what nothing uses in all that does not stand here.

pub mod admin {
    pub use crate::admin::{
        CommandError, Directory, Mailing, NobodySigns, OnThisThread, Person, ask, execute, export, hex, import,
    };
    pub mod client_settings {
        pub use crate::admin::client_settings::NewClient;
    }
    pub mod command {
        pub use crate::admin::command::{ClientCommand, Command, KeyCommand, UserCommand};
    }
    pub mod socket {
        pub use crate::admin::socket::{bind, serve_with};
    }
}
pub mod app {
    pub mod reset_lookup {
        pub use crate::app::reset_lookup::{LONGEST_DELAY, look_up};
    }
    pub mod address_lookup {
        pub use crate::app::address_lookup::look_up;
    }
    pub mod enrolment {
        pub use crate::app::enrolment::keep;
    }
    pub mod outbox {
        pub use crate::app::outbox::keep;
    }
    pub mod notices {
        pub use crate::app::notices::write;
    }
    pub mod rotation {
        pub use crate::app::rotation::keep;
    }
    pub mod sealing {
        pub use crate::app::sealing::{open, open_or_receive};
    }
    pub mod server {
        pub use crate::app::server::{Background, Server, ServerParts, StopSignal};
    }
    pub mod site {
        pub use crate::app::site::Site;
    }
    pub mod state {
        pub use crate::app::state::{Parts, Sealgate};
    }
}
pub mod audit {
    pub use crate::audit::AuditLog;
}
pub mod clock {
    pub use crate::clock::{Clock, FixedClock, OsEntropy, SystemClock, random};
}
pub mod config {
    pub use crate::config::{
        Access, App, AuditConfig, AuthorizationHeader, BeatDurability, Caching, ClientCertificates, Config,
        ConfigFault, Difference, Durability, EnrolmentChoice, Hsm, IdentityValue, IssuerUrl, KeySource, Language,
        LoginConfig, Logo, MailConfig, MailCredentials, MailTls, Mailbox, Mechanism, Names, PagesConfig, Picture,
        Presence, RegistrationMode, RulePerson, ServerConfig, SledConfig, StoreConfig, TlsConfig, Upstream,
        UpstreamTls, known_keys,
    };
}
pub mod domain {
    pub mod admission {
        pub use crate::domain::admission::{DataKeyEnvelope, NodeRequest, OaepHash};
    }
    pub mod app_password {
        pub use crate::domain::app_password::{AppPassword, MOST_APP_PASSWORDS};
    }
    pub mod assurance {
        pub use crate::domain::assurance::{
            AssuranceLevel, AuthenticationMethod, AuthenticationStep, AuthenticationSteps, FactorId,
        };
    }
    pub mod audit {
        pub use crate::domain::audit::{Actor, AuditEvent, AuditFilter, AuditId, AuditKind};
    }
    pub mod account_links {
        pub use crate::domain::account_links::{
            AccountLinks, AccountMark, INVITATION_LIFE, Invitation, InvitationState, LINK_BYTES, LinkToken, RESET_LIFE,
            ResetLink,
        };
    }
    pub mod client {
        pub use crate::domain::client::{
            AuthMethod, Authority, Client, ClientDecision, ClientDetails, ClientId, ClientSecret, ClientState,
            ClientType, ConsentRule, GrantType, SelfRegistration,
        };
    }
    pub mod code {
        pub use crate::domain::code::{Code, CodeState};
    }
    pub mod consent {
        pub use crate::domain::consent::Consent;
    }
    pub mod grant {
        pub use crate::domain::grant::{
            EndReason, Grant, GrantId, GrantKey, GrantState, PresentedToken, Refresh, RefreshToken, Salt,
        };
    }
    pub mod key_ring {
        pub use crate::domain::key_ring::{
            DueEndorsement, Endorsement, Introduction, KeyFault, KeyLife, KeyRing, KeyState, KeyTimes, PublicJwk,
            TokenHolder, Trust, statement,
        };
    }
    pub mod mail {
        pub use crate::domain::mail::{
            CodePurpose, Mail, MailId, MailKind, MailMessage, Notice, RequestOrigin, WaitingMail,
        };
    }
    pub mod pending_registration {
        pub use crate::domain::pending_registration::{PendingRegistration, REGISTRATION_LIFE};
    }
    pub mod pace {
        pub use crate::domain::pace::Pace;
    }
    pub mod rate_limit {
        pub use crate::domain::rate_limit::RateLimit;
    }
    pub mod redirect_uri {
        pub use crate::domain::redirect_uri::{RedirectUri, RedirectUriFault};
    }
    pub mod scope {
        pub use crate::domain::scope::{Scope, ScopeValue};
    }
    pub mod secret {
        pub use crate::domain::secret::{Secret, SecretHash, base64url, from_base64url};
    }
    pub mod session {
        pub use crate::domain::session::{AppSession, Session, SessionCookie, SessionId, SignIn};
    }
    pub mod time {
        pub use crate::domain::time::UnixTime;
    }
    pub mod totp {
        pub use crate::domain::totp::{TotpCode, TotpSecret, TotpVerdict};
    }
    pub mod user {
        pub use crate::domain::user::{Email, PasswordHash, Role, Subject, User, UserState};
    }
    pub mod username {
        pub use crate::domain::username::Username;
    }
}
pub mod gateway {
    pub use crate::gateway::take_work;
}
pub mod edge {
    pub use crate::edge::{
        Again, AnswerRewrite, AnsweredBy, Changer, ConnectionEvent, EdgeObserver, Finished, Forward, Front, Health,
        Occasion, Origin, Policy, Resolver, Rewrite, Verdict, check_head,
    };
}
pub mod mail {
    pub use crate::mail::{ComposeError, Composed, MailHeader, SendError, Sender, Transport, compose};
}
pub mod metrics {
    pub use crate::metrics::{EnrolmentShare, FactorOutcome, Metrics};
}
pub mod oauth {
    pub mod algorithm {
        pub use crate::oauth::algorithm::Algorithm;
    }
    pub mod jwt {
        pub use crate::oauth::jwt::{ACCESS_TOKEN, ASSERTION, ID_TOKEN, Unverified, assemble, signing_input};
    }
}
pub mod page {
    pub use crate::page::{
        AccountChooserPage, ActivityPage, AddFactorPage, AddressPage, AddressProblem, Addresses, AppEnrolment,
        AppPasswordFault, AppPasswordsPage, Application, ApplicationsPage, AuditField, AuditLogPage,
        CONTENT_SECURITY_POLICY, ClientLink, ConfirmLogoutPage, ConsentPage, ConsoleRole, CreateAccountPage,
        CreateAccountProblem, CredentialChoice, Done, EnrolPage, EnrolProblem, EnrolStep, ErrorPage, EventLine,
        FactorChoice, FactorLine, FactorLineKind, FactorPage, FactorProblem, FactorSettingsPage, ForbiddenPage,
        ForgotPasswordPage, Frame, HomeApp, HomePage, Inside, InvitationPage, KeptFormPage, KeyEnrolment, LoginPage,
        LoginProblem, MakeCodesPage, Named, NewAccountPage, NewAddressPage, NewAddressProblem, NewAppPassword,
        NewPasswordPage, NewPasswordProblem, Pages, PasskeyOffer, PasskeySignals, PasswordPage, PasswordProblem,
        Problem, ProfileField, ProfilePage, ProveAddressPage, Publisher, RETURN_SCRIPT, RecoveryCodesPage,
        RecoveryState, RecoveryUsedPage, ResetDonePage, ReturnFormPage, SCRIPT, STYLESHEET, SecurityPage,
        SecurityProblem, SendAgainPage, SessionsPage, SignedOutPage, UndoOutcome, UndoPage, UndonePage, UnmetPage,
        WaitingCode, Way, WayTo, WeakSignInPage, html, language_tag,
    };
    pub mod console {
        pub use crate::page::console::{
            AppLine, AppsPage, ClientFault, ClientField, ClientForm, ClientPage, ClientRefusal, ClientsPage,
            ConfirmPage, GuardedChange, InvitationForm, KeysPage, LimitLine, NewClientPage, NewUserPage, PersonFactors,
            PersonInvitation, ResetState, SettingsPage, TrialPage, TrialProblem, UserFactor, UserField, UserLine,
            UserPage, UsersPage,
        };
    }
    pub mod qr_code {
        pub use crate::page::qr_code::qr_code;
    }
}
pub mod password {
    pub use crate::password::{Line, PasswordFault, Passwords, hash_blocking};
}
pub mod provider {
    pub use crate::provider::{dispatch, owns, route};
}
pub mod signer {
    pub use crate::signer::{
        EnrolmentKeys, ErrorClass, Fresh, KeyId, KeyReport, KeySize, Observer, PinProblem, Pkcs11Signer, SignError,
        Signer, SignerOpenError, Timing, Unobserved, Vouching, WrappedKey, check, data_key, enrolment_keys, generate,
        list, sign_apart, wrap_init,
    };
}
pub mod store {
    pub use crate::store::{
        AddOutcome, AppPasswordAdded, AuditRecord, Committed, ExportRecord, Fence, Form, FormatRange, GrantFilter,
        LEASE_LENGTH, Lease, LeaseName, MAX_FORM_BYTES, Position, RecordChange, RenameOutcome, Store, StoreError,
        SweepPlace, Swept, Table, VersionStep, add_step,
    };
    pub mod barrier {
        pub use crate::store::barrier::count;
    }
    pub mod engine {
        pub use crate::store::engine::{
            Changes, CommitObserver, Counter, Counters, Engine, EngineError, Expect, FormatRule, Key, MAX_KEY_BYTES,
            MAX_VALUE_BYTES, Outcome, RerunCause, Value,
        };
    }
    pub mod memory {
        pub use crate::store::memory::MemoryEngine;
    }
    pub mod postgres {
        pub use crate::store::postgres::{
            FleetMember, FormatRaise, NewPostgresStore, NewStoreFault, PostgresEngine, PostgresFault, PostgresSettings,
            initialise, raise_format, snapshot,
        };
    }
    pub mod sealer {
        pub use crate::store::sealer::{SealError, Sealer};
    }
    pub mod shared_counts {
        pub use crate::store::shared_counts::{Block, BlockRequest, CountKey, CountedGuess, SharedCounts};
    }
    pub mod sled {
        pub use crate::store::sled::{NewStore, OpenError, Options, SledEngine};
    }
}
pub mod tokens {
    pub mod trusted {
        pub use crate::tokens::trusted::keep;
    }
}
pub mod web {
    pub mod origin {
        pub use crate::web::origin::Origin;
    }
}
pub mod webauthn {
    pub use crate::webauthn::{
        AssertionPurpose, AssertionResponse, AssertionTerms, BackupState, CborFault, CeremonyBlame, CeremonyChallenge,
        CeremonyError, CreationOptions, CredentialId, CredentialKey, CredentialKind, CredentialOwner, CredentialRecord,
        KeyAlgorithm, RegistrationResponse, RegistrationTerms, RelyingParty, RequestOptions, UserEntity, UserHandle,
        VerifiedAssertion, VerifiedRegistration,
    };
}
