// Asks again and again, but not while nobody looks, and less often while nobody answers.

import { ServerError, Unreachable } from "./api.js";

let interval = 3000;
let paused = false;
const running = new Set();

export function setInterval(ms) {
  if (ms > 0) interval = Math.max(ms, 500);
}

export const isPaused = () => paused;

/** Stop asking until told otherwise, for somebody who wants to look at something closely. */
export function setPaused(value) {
  paused = value;
  if (!paused) wakeAll();
}

/** Ask now, whatever the clock says. */
export function wakeAll() {
  running.forEach((poll) => poll.now());
}

document.addEventListener("visibilitychange", () => document.hidden || wakeAll());
addEventListener("online", wakeAll);

/** Call `ask` now and after every interval until the signal is aborted; `failed` gets what the server said no to. */
export function poll(ask, signal, { every = 1, failed = () => {} } = {}) {
  const state = { timer: 0, busy: false, again: false, misses: 0 };
  const next = () => {
    clearTimeout(state.timer);
    if (signal.aborted) return;
    state.timer = setTimeout(() => (document.hidden || paused ? null : once()), interval * every * 1.5 ** state.misses);
  };
  const once = async () => {
    if (state.busy) {
      state.again = true;
      return;
    }
    state.busy = true;
    try {
      await ask(signal);
      state.misses = 0;
    } catch (error) {
      if (error instanceof Unreachable) state.misses = Math.min(state.misses + 1, 5);
      else if (error instanceof ServerError) failed(error);
      else if (!signal.aborted) throw error;
    } finally {
      state.busy = false;
      if (state.again) {
        state.again = false;
        queueMicrotask(once);
      } else next();
    }
  };
  const entry = { now: once };
  running.add(entry);
  signal.addEventListener("abort", () => {
    clearTimeout(state.timer);
    running.delete(entry);
  });
  once();
  return once;
}
