//! Checks and hashes new passwords, on the server's password threads or on the calling thread.

use async_trait::async_trait;
use secrecy::SecretString;

use sealgate_core::password::{Line, PasswordError, Passwords, check_blocking, hash_blocking};
use sealgate_domain::password_rules::{Owner, PasswordFault};
use sealgate_domain::secret::Secret;
use sealgate_domain::user::PasswordHash;

/// Hasher of new passwords.
#[async_trait]
pub trait HashPassword: Send + Sync {
    /// Hashes the password with this salt.
    ///
    /// # Errors
    /// If the password is too long, or the threads are overloaded.
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError>;

    /// Checks a new password.
    ///
    /// # Errors
    /// If the threads are overloaded.
    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError>;
}

#[async_trait]
impl HashPassword for Passwords {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        Self::hash(self, SecretString::from(password.expose()), salt).await
    }

    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError> {
        Self::check(self, Line::Trusted, password, owner).await
    }
}

/// Hashes on the calling thread; used by processes without other tasks.
#[derive(Debug, Clone, Copy, Default)]
pub struct OnThisThread;

#[async_trait]
impl HashPassword for OnThisThread {
    async fn hash(&self, password: &Secret, salt: [u8; 16]) -> Result<PasswordHash, PasswordError> {
        hash_blocking(&SecretString::from(password.expose()), salt)
    }

    async fn check(&self, password: &Secret, owner: &Owner<'_>) -> Result<Result<(), PasswordFault>, PasswordError> {
        Ok(check_blocking(password, owner))
    }
}
