// The REST interface, as the pages use it: JSON in, JSON out, errors with the server's own sentence.

/** The server answered, and said no. */
export class ServerError extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.name = "ServerError";
    this.status = status;
  }
  /** Whether the server does not have what was asked for, and asking again is of no use. */
  get isMissing() {
    return this.status === 404 || this.status === 501;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {
  constructor(cause) {
    super("the server does not answer", { cause });
    this.name = "Unreachable";
  }
}

const PATIENCE = 20_000;
// For what changes something: a program that is run may take a minute until its job is known, and who gives up too soon runs it twice.
const LONG_PATIENCE = 120_000;
const UPLOAD_PATIENCE = 600_000;
const TOKEN = "firesteel.token";
const listeners = new Set();
const answers = new Map(); // path -> newest answer, so that a page that is opened again shows something at once
const MOST_ANSWERS = 400;

/** Called with {reachable, denied} whenever the server was asked something. */
export function onConnection(listener) {
  listeners.add(listener);
}

const tell = (state) => listeners.forEach((listener) => listener(state));

/** Sent as bearer token with every request, until the browser's tab is closed; none: not any more. */
export function useToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
  answers.clear(); // what one may see and do depends on who one is
  lacking.clear();
  dispatchEvent(new CustomEvent("token"));
}

export const hasToken = () => Boolean(sessionStorage.getItem(TOKEN));

async function request(method, path, { body, signal, raw = false } = {}) {
  const headers = raw ? {} : { Accept: "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined && !(body instanceof FormData)) headers["Content-Type"] = "application/json";
  const timeout = AbortSignal.timeout(body instanceof FormData ? UPLOAD_PATIENCE : method === "GET" ? PATIENCE : LONG_PATIENCE);
  try {
    const response = await fetch(`v1${path}`, {
      method,
      headers,
      body: body === undefined || body instanceof FormData ? body : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    const text = await response.text();
    tell({ reachable: ![502, 504].includes(response.status), denied: response.status === 401 });
    if (!response.ok) throw new ServerError(response.status, sentenceOf(response.status, text));
    return raw ? text : text ? JSON.parse(text) : {};
  } catch (error) {
    if (error instanceof ServerError || signal?.aborted) throw error;
    if (error instanceof SyntaxError) throw new ServerError(500, `the answer to ${path} is not JSON`);
    tell({ reachable: false, denied: false });
    throw new Unreachable(error);
  }
}

function sentenceOf(status, text) {
  try {
    const { errors } = JSON.parse(text);
    if (Array.isArray(errors) && errors.length) return errors.map(String).join("\n");
  } catch {
    // Not the error body of the REST interface; the text says what there is to say.
  }
  return text.length && text.length < 2000 && !text.includes("<") ? text : `the server answered with status ${status}`;
}

export async function get(path, signal) {
  const answer = await request("GET", path, { signal });
  answers.delete(path);
  answers.set(path, answer);
  if (answers.size > MOST_ANSWERS) answers.delete(answers.keys().next().value);
  return answer;
}

/** The newest answer of a path, without asking. */
export const newest = (path) => answers.get(path);

export const getText = (path, signal) => request("GET", path, { signal, raw: true });
export const post = (path, body = {}) => request("POST", path, { body });
export const patch = (path) => request("PATCH", path);
export const put = (path, body) => request("PUT", path, { body });
export const remove = (path) => request("DELETE", path);

const lacking = new Set(); // paths of what the server will never have

/** The answer, or undefined where the server does not have it; what it says it never has is not asked for again. */
export async function getIfThere(path, signal) {
  const [plain] = path.split("?");
  if (lacking.has(plain)) return undefined;
  try {
    return await get(path, signal);
  } catch (error) {
    if (!(error instanceof ServerError)) throw error;
    if (error.status === 501) lacking.add(plain);
    return undefined;
  }
}

/** Wait for an asynchronous operation that a trigger id stands for; its result, or an error with its cause. */
export async function finished(path, signal) {
  for (let pause = 200; ; pause = Math.min(pause * 1.5, 2000)) {
    const { status, operation } = await get(path, signal);
    if (status?.id === "COMPLETED") {
      const cause = operation?.["failure-cause"];
      if (cause) throw new ServerError(500, firstLines(cause["stack-trace"] ?? cause.class ?? "the operation failed"));
      return operation ?? {};
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function firstLines(trace) {
  return String(trace).trim().split("\n").slice(0, 3).join("\n");
}

const LONGEST_QUERY = 3000;

/** Values of many metrics of one place, as a map of name to number; long lists of names take several requests. */
export async function metricValues(path, names, signal) {
  const values = new Map();
  const parts = [[]];
  let length = 0;
  for (const name of names) {
    length += name.length + 3;
    if (length > LONGEST_QUERY) {
      parts.push([]);
      length = name.length;
    }
    parts.at(-1).push(encodeURIComponent(name));
  }
  const answers = await Promise.all(parts.map((part) => request("GET", `${path}?get=${part.join(",")}`, { signal })));
  for (const { id, value } of answers.flat()) values.set(id, Number(value));
  return values;
}
