// Processes inputs with third-party implementations. Reads an array of requests on standard input, writes an
// array of results to standard output.
import { verifyAuthenticationResponse, verifyRegistrationResponse } from "@simplewebauthn/server";
import jsqr from "jsqr";
import * as OTPAuth from "otpauth";

const expectations = ({ answer, challenge, origin, rpId, verification }) => ({
    response: answer,
    expectedChallenge: challenge,
    expectedOrigin: origin,
    expectedRPID: rpId,
    requireUserVerification: verification,
});

const base64url = (bytes) => Buffer.from(bytes).toString("base64url");

const answers = {
    async registration(question) {
        const { verified, registrationInfo: made } = await verifyRegistrationResponse({
            ...expectations(question),
            supportedAlgorithmIDs: [-8, -7, -257],
        });
        if (!verified) throw new Error("not verified");
        return {
            id: made.credential.id,
            key: base64url(made.credential.publicKey),
            count: made.credential.counter,
            copied: made.credentialDeviceType === "multiDevice",
            backedUp: made.credentialBackedUp,
        };
    },

    async assertion(question) {
        const { verified, authenticationInfo: used } = await verifyAuthenticationResponse({
            ...expectations(question),
            credential: {
                id: question.credential.id,
                publicKey: Buffer.from(question.credential.key, "base64url"),
                counter: question.credential.count,
            },
        });
        if (!verified) throw new Error("not verified");
        return {
            id: used.credentialID,
            count: used.newCounter,
            verified: used.userVerified,
            copied: used.credentialDeviceType === "multiDevice",
            backedUp: used.credentialBackedUp,
        };
    },

    // Code and displayed data of an authenticator app that was set up by the URI.
    async totp({ uri, seconds }) {
        const totp = OTPAuth.URI.parse(uri);
        const { issuer, label, algorithm, digits, period } = totp;
        return { issuer, label, algorithm, digits, period, code: totp.generate({ timestamp: seconds * 1000 }) };
    },

    // Text of a QR code drawn by strokes, one row of modules each: `h` draws, `m` moves. Three pixels per
    // module.
    async qr({ svg }) {
        const [, border, size] = /viewBox="-(\d+) -\1\.5 (\d+) /.exec(svg).map(Number);
        const scale = 3, width = size * scale;
        const pixels = new Uint8ClampedArray(width * width * 4).fill(255);
        for (const [, row, strokes] of svg.matchAll(/M0 (\d+)((?:h\d+|m\d+ 0)*)/g)) {
            let x = border;
            for (const [, stroke, length] of strokes.matchAll(/([hm])(\d+)/g)) {
                const end = x + Number(length);
                for (let at = (Number(row) + border) * scale; stroke === "h" && at < (Number(row) + border + 1) * scale; at++) {
                    pixels.fill(0, (at * width + x * scale) * 4, (at * width + end * scale) * 4);
                    for (let pixel = x * scale; pixel < end * scale; pixel++) pixels[(at * width + pixel) * 4 + 3] = 255;
                }
                x = end;
            }
        }
        return jsqr(pixels, width, width)?.data ?? null;
    },
};

let input = "";
for await (const part of process.stdin) input += part;
const replies = [];
for (const question of JSON.parse(input)) {
    try {
        replies.push({ accepted: await answers[question.ask](question) });
    } catch (error) {
        replies.push({ refused: `${error.name}: ${error.message}` });
    }
}
process.stdout.write(JSON.stringify(replies));
