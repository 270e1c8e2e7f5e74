// Elements, SVG, tables and the switch between a picture and its table. Text is only ever set as text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

export function picture(width, height, title, ...children) {
  const attributes = { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title };
  return s("svg", attributes, ...children);
}

export const text = (x, y, words, kind = "", anchor = "start") =>
  s("text", { x, y, class: kind, "text-anchor": anchor }, words);

/// Columns are [heading, is it a number?]; a cell is text or an element.
export function table(columns, rows) {
  const head = h("tr", {}, columns.map(([name, number]) => h("th", { scope: "col", class: number ? "num" : null }, name)));
  const cell = (value, at) => h("td", { class: columns[at][1] ? "num" : null }, value ?? "–");
  return h("table", {}, h("thead", {}, head), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))));
}

/// A button in the card's head shows the table in place of the picture.
export function twin(name) {
  const [card, drawn, listed] = [byId(`${name}-card`), byId(name), byId(`${name}-twin`)];
  const button = h("button", { type: "button", "aria-pressed": "false", "aria-controls": `${name}-twin` }, "Table");
  button.addEventListener("click", () => {
    const asTable = listed.hidden;
    [listed.hidden, drawn.hidden] = [!asTable, asTable];
    button.setAttribute("aria-pressed", String(asTable));
    button.textContent = asTable ? "Picture" : "Table";
  });
  card.querySelector(".head").append(button);
}

export const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
export const colour = (nth) => ((nth % 8) + 8) % 8;

/// Calls again when the width of an element has changed.
export function onWidth(element, draw) {
  let known = 0;
  new ResizeObserver(() => {
    const width = Math.round(element.clientWidth);
    if (width > 0 && width !== known) {
      known = width;
      draw();
    }
  }).observe(element);
}

export function legend(kinds) {
  const swatch = (at) => s("svg", { viewBox: "0 0 14 8", "aria-hidden": "true" }, s("rect", { y: 2, width: 14, height: 4, rx: 2, class: `f${colour(at)}` }));
  return h("div", { class: "legend" }, kinds.map((kind, at) => h("span", {}, swatch(at), kind)));
}
