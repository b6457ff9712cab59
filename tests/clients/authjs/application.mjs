// An Express application with Auth.js, with a generic provider as in its documentation.

import { randomBytes } from "node:crypto";
import { ExpressAuth, getSession } from "@auth/express";
import express from "express";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, RP_PORT } = process.env;
const config = {
  secret: randomBytes(32).toString("hex"),
  trustHost: true,
  providers: [
    { id: "sealgate", name: "Sealgate", type: "oidc", issuer: ISSUER, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET },
  ],
  callbacks: {
    jwt: ({ token, account, profile }) => (account ? { ...token, sub: profile.sub, idToken: account.id_token } : token),
    session: ({ session, token }) => ({ ...session, sub: token.sub, idToken: token.idToken }),
  },
};
const application = express();
application.use("/auth/*", ExpressAuth(config));
application.get("/", async (request, response) => response.json((await getSession(request, config)) ?? { error: "nobody" }));
application.listen(Number(RP_PORT), "127.0.0.1");
