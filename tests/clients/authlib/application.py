"""A Flask application that signs people in with Authlib, written as Authlib's own documentation says."""

import os
import secrets

from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.flask_client import OAuth
from flask import Flask, redirect, session

application = Flask(__name__)
application.secret_key = secrets.token_hex()
# The provider is on the same host, and cookies do not distinguish ports.
application.config["SESSION_COOKIE_NAME"] = "authlib"

provider = OAuth(application).register(
    "provider",
    client_id=os.environ["CLIENT_ID"],
    client_secret=os.environ["CLIENT_SECRET"],
    server_metadata_url=os.environ["ISSUER"] + "/.well-known/openid-configuration",
    client_kwargs={
        "scope": "openid profile email offline_access",
        "code_challenge_method": "S256",
    },
)
# A session cookie is too small for the tokens.
tokens = {}


@application.get("/login")
def login():
    return provider.authorize_redirect(os.environ["REDIRECT_URI"])


@application.get("/callback")
def callback():
    # Checks state and PKCE, and the ID token's signature against the JWKS, its issuer, audience, nonce and at_hash.
    token = provider.authorize_access_token()
    session["user"] = token["userinfo"]
    tokens[token["userinfo"]["sub"]] = token
    return redirect("/")


@application.get("/")
def person():
    return session.get("user") or ({"error": "nobody"}, 401)


@application.get("/claims")
def claims():
    return dict(provider.userinfo(token=tokens[session["user"]["sub"]]))


@application.get("/refresh")
def refresh():
    sub = session["user"]["sub"]
    old = tokens[sub]
    new = provider.fetch_access_token(grant_type="refresh_token", refresh_token=old["refresh_token"])
    claims = provider.parse_id_token(new, nonce=None)
    tokens[sub] = new
    try:
        provider.fetch_access_token(grant_type="refresh_token", refresh_token=old["refresh_token"])
        reuse = "accepted"
    except OAuthError as error:
        reuse = error.error
    return {
        "sub": claims["sub"],
        "rotated": new["refresh_token"] != old["refresh_token"],
        "another_access_token": new["access_token"] != old["access_token"],
        "reuse": reuse,
    }


@application.get("/logout")
def logout():
    user = session.pop("user")
    return provider.logout_redirect(
        post_logout_redirect_uri=os.environ["SIGNED_OUT_PAGE"],
        id_token_hint=tokens.pop(user["sub"])["id_token"],
    )


@application.get("/signed-out")
def signed_out():
    provider.validate_logout_response()
    return {"signed_out": True}


application.run("127.0.0.1", int(os.environ["RP_PORT"]), threaded=True)
