"""Authenticates JupyterLab users by Sealgate's identity headers (preset = "jupyterlab").

JupyterLab must only be reachable through Sealgate, because a client that reaches it directly can forge the
headers and run programs. All users share the operating system account of the server; use JupyterHub for
separate accounts.
"""

from urllib.parse import unquote

from jupyter_server.auth import IdentityProvider, User


class SealgateIdentity(IdentityProvider):
    # No token and no password page: Sealgate signs users in.
    token = ""
    auth_enabled = True

    def get_user(self, handler):
        def said(name):
            # Percent-encoded UTF-8.
            return unquote(handler.request.headers.get(f"Remote-{name}", ""))

        who = said("User")
        if not who:
            return None
        name = said("Name") or who
        return User(username=who, name=name, display_name=name)


c = get_config()  # noqa: F821
c.ServerApp.identity_provider_class = SealgateIdentity
c.ServerApp.allow_remote_access = True
