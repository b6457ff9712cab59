// Opens a URL as a browser that signs in and consents, and prints the URL of the client at which it ends.

import { Browser } from "../browser.mjs";

const [address, end] = process.argv.slice(2);
console.log((await new Browser([end]).go(address)).href);
