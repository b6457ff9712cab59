// OpenID provider for the tests: provider.mjs PORT SECRET REDIRECT_URI…. Every username is an account whose address
// is at acme.test. The password of an account is not checked.
import Provider from "oidc-provider";

const [port, secret, ...redirects] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const groups = { anna: ["staff", "editors"], otto: [] };

const provider = new Provider(issuer, {
    clients: [{
        client_id: "sealgate", client_secret: secret, redirect_uris: redirects,
        grant_types: ["authorization_code", "refresh_token"], response_types: ["code"],
        post_logout_redirect_uris: redirects.map((uri) => uri.replace(/callback$/, "signed-out")),
        backchannel_logout_uri: redirects[0].replace(/callback$/, "logout"), backchannel_logout_session_required: true,
    }],
    features: { backchannelLogout: { enabled: true } },
    // Sealgate does not request offline_access here.
    issueRefreshToken: async () => true,
    rotateRefreshToken: true,
    cookies: { keys: ["only for tests"] },
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
    findAccount: (_, id) => ({
        accountId: id,
        claims: () => ({ sub: id, email: `${id}@acme.test`, email_verified: true, name: `The user ${id}`, groups: groups[id] ?? [] }),
    }),
    // Every user has consented.
    loadExistingGrant: async (ctx) => {
        const grant = new ctx.oidc.provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
        grant.addOIDCScope("openid email profile");
        await grant.save();
        return grant;
    },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
