"""Tells JupyterLab who somebody is, from the headers that Sealgate writes (preset = "jupyterlab").

Nobody may reach JupyterLab but through Sealgate: whoever does can write the headers, and run programs. All people share the
one account that it runs as; for an account each, use JupyterHub.
"""

from urllib.parse import unquote

from jupyter_server.auth import IdentityProvider, User


class SealgateIdentity(IdentityProvider):
    # There is no token and no password page: Sealgate signs people in.
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
