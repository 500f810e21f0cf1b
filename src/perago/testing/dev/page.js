// Asks for the number of the newest run and fetches the rendered part when it has changed.
// The part is rendered and escaped by the process; nothing is built from data here.
"use strict";
let seen = null;
async function look() {
  const version = await (await fetch("/version")).text();
  if (seen !== null && version !== seen) {
    const part = await (await fetch("/scenes.html")).text();
    document.getElementById("scenes").innerHTML = part;
  }
  seen = version;
}
setInterval(() => look().catch(() => undefined), 1000);
