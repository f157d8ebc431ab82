// Numbers, sizes, durations and times as people read them. Pure functions.

const NOTHING = "–";
const MIN_WATERMARK = -9223372036854776000;
const MAX_WATERMARK = 9223372036854776000;

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** What a server sent as a number, or as text with a number; undefined if it is neither. */
export function number(value) {
  if (value === null || value === undefined || value === "") return undefined;
  const converted = Number(value);
  return Number.isFinite(converted) ? converted : undefined;
}

function scaled(value, step, units) {
  let at = 0;
  let rest = Math.abs(value);
  while (rest >= step && at < units.length - 1) {
    rest /= step;
    at += 1;
  }
  const digits = at === 0 && Number.isInteger(rest) ? 0 : rest >= 100 ? 0 : rest >= 10 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${rest.toFixed(digits)}${units[at]}`;
}

export function count(value) {
  return isNumber(value) ? scaled(value, 1000, ["", " k", " M", " G", " T", " P"]) : NOTHING;
}

/** Every digit, for titles and tables in which one compares. */
export function exact(value) {
  return isNumber(value) ? value.toLocaleString("en", { maximumFractionDigits: 3 }) : NOTHING;
}

export function rate(value) {
  return isNumber(value) ? `${count(value)}/s` : NOTHING;
}

export function bytes(value) {
  return isNumber(value) && value >= 0 ? scaled(value, 1024, [" B", " KB", " MB", " GB", " TB"]) : NOTHING;
}

export function percent(share) {
  return isNumber(share) ? `${Math.round(share * 100)} %` : NOTHING;
}

export function duration(ms) {
  if (!isNumber(ms) || ms < 0) return NOTHING;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const two = (value) => String(value).padStart(2, "0");

export function clock(ms) {
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A moment: the time of today, otherwise with its date. */
export function moment(ms) {
  if (!isNumber(ms) || ms <= 0) return NOTHING;
  const at = new Date(ms);
  if (at.toDateString() === new Date().toDateString()) return clock(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(ms)}`;
}

/** A watermark; the smallest and the largest number mean "none yet" and "the end of all time". */
export function watermark(value) {
  const ms = number(value);
  if (ms === undefined || ms <= MIN_WATERMARK) return "none yet";
  if (ms >= MAX_WATERMARK) return "end of input";
  return moment(ms) === NOTHING ? exact(ms) : moment(ms);
}

/** How far a watermark is behind a moment, where both are times of this era; otherwise undefined. */
export function watermarkLag(value, now) {
  const ms = number(value);
  if (ms === undefined || ms <= MIN_WATERMARK || ms >= MAX_WATERMARK || ms < 1e11) return undefined;
  return Math.max(0, now - ms);
}

export function plural(amount, one, many = `${one}s`) {
  return `${exact(amount)} ${amount === 1 ? one : many}`;
}
