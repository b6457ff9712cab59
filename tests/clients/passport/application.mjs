// An Express application with passport and passport-openidconnect, as in its documentation.

import { randomBytes } from "node:crypto";
import express from "express";
import session from "express-session";
import passport from "passport";
import Strategy from "passport-openidconnect";

const { ISSUER, CLIENT_ID, CLIENT_SECRET, RP_PORT, REDIRECT_URI } = process.env;
passport.use(
  new Strategy(
    {
      issuer: ISSUER,
      authorizationURL: `${ISSUER}/oauth/authorize`,
      tokenURL: `${ISSUER}/oauth/token`,
      userInfoURL: `${ISSUER}/oauth/userinfo`,
      clientID: CLIENT_ID,
      clientSecret: CLIENT_SECRET,
      callbackURL: REDIRECT_URI,
      scope: ["profile", "email"],
    },
    (issuer, profile, done) => done(null, profile),
  ),
);
passport.serializeUser((user, done) => done(null, user));
passport.deserializeUser((user, done) => done(null, user));

const application = express();
application.use(session({ name: "passport", secret: randomBytes(32).toString("hex"), resave: false, saveUninitialized: false }));
application.use(passport.session());
application.get("/login", passport.authenticate("openidconnect"));
application.get("/callback", passport.authenticate("openidconnect", { successRedirect: "/", failWithError: true }));
application.get("/", (request, response) => response.json(request.user ?? { error: "nobody" }));
application.use((error, request, response, next) => response.status(500).json({ error: String(error), next: next.name }));
application.listen(Number(RP_PORT), "127.0.0.1");
