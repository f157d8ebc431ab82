// Questions that stop everything else: confirmations with a form, and the list of shortcuts.

import { h, show } from "./dom.js";

/** Say something to whoever listens instead of looking. */
export function say(sentence) {
  document.getElementById("said").textContent = sentence;
}

function open(content, { label }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", label);
  document.getElementById("dialogs").append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  show(dialog, content(dialog));
  dialog.showModal();
  return dialog;
}

/**
 * Ask before something is done: a form with its fields, then `act(values)`, whose answer or error stays in the dialog.
 *
 * Fields are {name, label, type, value, help}; a checkbox gives true or false.
 */
export function confirm({ title, text, fields = [], confirmLabel, danger = false, act }) {
  const state = { phase: "asking", sentence: "" };
  const dialog = open(() => null, { label: title });
  const draw = () => show(dialog, form());
  const submit = async (event) => {
    event.preventDefault();
    if (state.phase === "done") return dialog.close();
    Object.assign(state, { phase: "working", sentence: "" });
    const values = valuesOf(event.target, fields);
    draw();
    try {
      Object.assign(state, { phase: "done", sentence: (await act(values)) ?? "Done." });
    } catch (error) {
      Object.assign(state, { phase: error.isMissing ? "done" : "asking", sentence: error.message, failed: true });
    }
    draw();
    say(state.sentence);
  };
  const form = () =>
    h("form", { onSubmit: submit, "aria-busy": state.phase === "working" ? "true" : null },
      h("h2", {}, title),
      text ? h("p", {}, text) : null,
      state.phase === "done" ? null : fields.map((field) => fieldRow(field, state.phase === "working")),
      h("p", { class: `dialog-answer ${state.failed ? "bad" : ""}`, role: "status" }, state.sentence || " "),
      h("div", { class: "dialog-buttons" },
        state.phase === "done" ? null : h("button", { type: "button", onClick: () => dialog.close() }, "Leave it"),
        h("button", { type: "submit", class: danger && state.phase !== "done" ? "danger" : "primary", disabled: state.phase === "working" },
          state.phase === "done" ? "Close" : state.phase === "working" ? "Working …" : confirmLabel)));
  draw();
  // Enter alone must not do what cannot be undone.
  dialog.querySelector(danger ? "input, button[type=button]" : "input, button[type=submit]")?.focus();
}

function valuesOf(form, fields) {
  const value = ({ name, type }) => (type === "checkbox" ? form.elements[name].checked : form.elements[name].value.trim());
  return Object.fromEntries(fields.map((field) => [field.name, value(field)]));
}

function fieldRow({ name, label, type = "text", value, help, ...rest }, disabled) {
  const given = type === "checkbox" ? { checked: Boolean(value) } : { value: value ?? "" };
  return h("label", { class: `field ${type}`, key: name },
    h("span", {}, label),
    h("input", { name, type, disabled, autocomplete: "off", ...given, ...rest }),
    help ? h("small", {}, help) : null);
}

/** Show something until it is closed. */
export function inform(title, content) {
  open((dialog) => h("div", { class: "dialog-content" },
    h("h2", {}, title),
    content,
    h("div", { class: "dialog-buttons" }, h("button", { class: "primary", onClick: () => dialog.close() }, "Close")),
  ), { label: title });
}

export const isOpen = () => document.querySelector("dialog[open]") !== null;
