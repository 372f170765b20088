// Asks the admin listener. Where it wants a token, a person is asked for it once, and it is kept for as long as the tab is open.

import { dialog, h } from "./dom.js";

const PLACE = "respool-token";
/** respool gives up on a worker after five seconds and says so; who says nothing for so long is not there. */
const ANSWER_WITHIN_MS = 10_000;
let login = null;

/** What the listener refused. */
export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** Whether a person is being asked for the token. */
export const waits = () => login !== null;

/** `within_ms`: it is no JSON, and respool may take so long for it. */
async function once(method, path, body, within_ms) {
  const headers = { Accept: "application/json" };
  const token = sessionStorage.getItem(PLACE);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const text = body === undefined ? undefined : JSON.stringify(body);
  const answer = await fetch(path, { method, headers, body: text, cache: "no-store", signal: AbortSignal.timeout(within_ms ?? ANSWER_WITHIN_MS) });
  const said = await answer.text();
  if (within_ms && answer.ok) return said;
  let value = null;
  try {
    value = said ? JSON.parse(said) : null;
  } catch {
    throw new Refused(answer.status, said.slice(0, 500));
  }
  if (!answer.ok) throw new Refused(answer.status, value?.error ?? answer.statusText);
  return value;
}

/** Asks, and asks for the token where there has to be one. */
export async function call(method, path, body, within_ms) {
  for (;;) {
    try {
      return await once(method, path, body, within_ms);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 401) throw error;
      await (login ??= token());
    }
  }
}

export const get = (path) => call("GET", path);

/** What is no JSON, and may take so long. */
export const text = (path, within_ms) => call("GET", path, undefined, within_ms);

/** Other values for options: all of them or none. */
export const patch = (values, dry) => call("PATCH", dry ? "/config?dry_run=true" : "/config", values);

function token() {
  const wrong = sessionStorage.getItem(PLACE) !== null;
  return new Promise((resolve) => {
    const field = h("input", { id: "token", type: "password", autocomplete: "current-password", required: true, autofocus: true });
    const send = (event) => {
      event.preventDefault();
      if (!field.value.trim()) return;
      sessionStorage.setItem(PLACE, field.value.trim());
      box.close();
    };
    const form = h(
      "form",
      { onsubmit: send },
      h("p", {}, wrong ? "This token is not the right one (any more)." : "This respool answers who has its token: admin.token or admin.token_file."),
      h("label", { for: "token" }, "Token"),
      field,
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "main" }, "Sign in")),
    );
    const box = dialog("Sign in", form, []);
    // Without the token there is nothing to show, so Escape does not help.
    box.addEventListener("cancel", (event) => event.preventDefault());
    box.addEventListener("close", () => {
      login = null;
      resolve();
    });
  });
}
