// An Express application with express-openid-connect, as in its documentation.

import { randomBytes } from "node:crypto";
import express from "express";
import openid from "express-openid-connect";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, RP_PORT, RESPONSE_MODE } = process.env;
const application = express();
application.use(
  openid.auth({
    issuerBaseURL: ISSUER,
    baseURL: `http://localhost:${RP_PORT}`,
    clientID: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    secret: randomBytes(32).toString("hex"),
    // Cookies do not distinguish ports.
    session: { name: "express" },
    authorizationParams: {
      response_type: "code",
      ...(RESPONSE_MODE && { response_mode: RESPONSE_MODE }),
      scope: "openid profile email",
    },
    idpLogout: true,
    authRequired: false,
    routes: { postLogoutRedirect: process.env.SIGNED_OUT_URI },
  }),
);
application.get("/", (request, response) => response.json(request.oidc.user ?? { error: "nobody" }));
application.get("/claims", async (request, response) => response.json(await request.oidc.fetchUserInfo()));
application.listen(Number(RP_PORT), "127.0.0.1");
