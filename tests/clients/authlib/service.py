"""A program with a key instead of a secret: Authlib's private_key_jwt with client_credentials."""

import os

from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc7523 import PrivateKeyJWT, private_key_jwt_sign
from joserfc.jwk import ECKey

ISSUER = os.environ["ISSUER"]
TOKEN_ENDPOINT = ISSUER + "/oauth/token"


class ShortAssertion(PrivateKeyJWT):
    """An assertion of one minute. Authlib's own is valid for an hour, and names the token endpoint."""

    def sign(self, auth, token_endpoint):
        key = ECKey.import_key(auth.client_secret)
        return private_key_jwt_sign(key, auth.client_id, ISSUER, alg="ES256", expires_in=60)


def token(method):
    with open(os.environ["SIGNED_CLIENT_KEY"], encoding="ascii") as file:
        key = file.read()
    session = OAuth2Session(os.environ["SIGNED_CLIENT_ID"], key, token_endpoint_auth_method="private_key_jwt")
    session.register_client_auth_method(method)
    return session.fetch_token(TOKEN_ENDPOINT, grant_type="client_credentials", resource=os.environ["RESOURCE"])


for _ in range(2):
    assert token(ShortAssertion())["scope"] == "wiki:read"
print("ok private_key_jwt")


class LongAssertion(PrivateKeyJWT):
    def sign(self, auth, token_endpoint):
        return private_key_jwt_sign(ECKey.import_key(auth.client_secret), auth.client_id, ISSUER, alg="ES256")


class OfEndpoint(PrivateKeyJWT):
    def sign(self, auth, token_endpoint):
        key = ECKey.import_key(auth.client_secret)
        return private_key_jwt_sign(key, auth.client_id, TOKEN_ENDPOINT, alg="ES256", expires_in=60)


for method in (LongAssertion(), OfEndpoint()):
    try:
        token(method)
    except OAuthError as error:
        assert error.error == "invalid_client", error
    else:
        raise AssertionError(f"{type(method).__name__} was accepted")
print("ok assertions of an hour, and for the token endpoint, refused")
