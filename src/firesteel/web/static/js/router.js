// Which page the part of the address behind "#" names; every page can be bookmarked.

const routes = [];

/** A pattern such as "/jobs/:jid/checkpoints/:id" and what opens the page. */
export function route(pattern, open) {
  const names = [];
  const source = pattern.replace(/:(\w+)/g, (_, name) => {
    names.push(name);
    return "([^/]+)";
  });
  routes.push({ regexp: new RegExp(`^${source}$`), names, open, pattern });
}

/** The page of an address: {open, pattern, params, query}; open is undefined if there is none. */
export function resolve(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?");
  const clean = `/${path.replace(/^\/+|\/+$/g, "")}`;
  const query = new URLSearchParams(search);
  for (const { regexp, names, open, pattern } of routes) {
    const match = regexp.exec(clean);
    if (!match) continue;
    const params = Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(match[at + 1])]));
    return { open, pattern, params, query, path: clean };
  }
  return { open: undefined, pattern: "", params: {}, query, path: clean };
}

/** The address of a page. */
export function link(path, query = {}) {
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(words).toString();
  return `#${path}${search ? `?${search}` : ""}`;
}

/** The same page with other words behind "?", without an entry in the browser's history. */
export function rewrite(path, query) {
  history.replaceState(history.state, "", link(path, query));
}
