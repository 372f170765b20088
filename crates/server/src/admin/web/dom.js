// Elements. Everything that comes from outside is put in as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element of the page; strings among the children become text. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of a drawing. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Sets a text if it is another one, so that what is selected stays selected. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Replaces all children. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** A word with a colour that says how well something is; the word says it, too. */
export function health(state) {
  return h("span", { class: `health ${state}` }, state);
}

/** Shows a window that takes the keyboard; it is gone when it is closed. */
export function dialog(title, body, buttons) {
  const box = h("dialog", { "aria-label": title }, h("h2", {}, title), body, h("div", { class: "buttons" }, buttons));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Asks a person; true if the answer is yes. */
export function ask(title, text, yes) {
  return new Promise((resolve) => {
    const no = h("button", { type: "button", autofocus: true, onclick: () => box.close() }, "Cancel");
    const go = h("button", { type: "button", class: "danger", onclick: () => box.close("yes") }, yes);
    const box = dialog(title, h("p", {}, text), [no, go]);
    box.addEventListener("close", () => resolve(box.returnValue === "yes"));
  });
}

let hide = 0;

/** Tells what came of something, for some seconds. */
export function notice(text, wrong = false) {
  const line = document.getElementById("notice");
  line.hidden = false;
  line.classList.toggle("wrong", wrong);
  say(line, text);
  clearTimeout(hide);
  hide = setTimeout(() => (line.hidden = true), wrong ? 12000 : 5000);
}
