// Behaviour of the catalog's pages: one map at a time, the table's filter and sorting, copying of BibTeX.
// A classic script, since browsers load no modules from a disk; every text goes in as text, never as HTML.
"use strict";

(() => {
  const make = (tag, text, attributes = {}) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };

  // Start page: a button for each ring; without a script all maps stand below each other.
  const tabs = document.querySelector("[data-tabs]");
  if (tabs) {
    const sections = [...document.querySelectorAll("[data-tab]")];
    tabs.setAttribute("role", "group");
    tabs.setAttribute("aria-label", "Ring of the map");
    const show = (chosen) => {
      sections.forEach((section, i) => {
        section.hidden = section !== chosen;
        tabs.children[i].setAttribute("aria-pressed", String(section === chosen));
      });
    };
    for (const section of sections) {
      const button = make("button", `over ${section.dataset.tab}`, { type: "button" });
      button.addEventListener("click", () => {
        show(section);
        history.replaceState(null, "", `#${section.id}`);
      });
      tabs.append(button);
    }
    const named = () => sections.find((section) => `#${section.id}` === location.hash);
    addEventListener("hashchange", () => named() && show(named()));
    show(named() || sections.find((section) => section.id === "map-Z") || sections[0]);
    tabs.hidden = false;
  }

  // Table of all schemes. Places of a row's values in assets/schemes.js:
  const NAME = 0, FORMAT = 1, RING = 2, RANK = 3, GAP = 4, TERNARY = 5, RATIO = 11, DEVICE = 12, METHOD = 13, SOURCE = 14;
  const COLUMNS = [
    [FORMAT, "format", false], [RING, "ring", false], [RANK, "rank", true], [GAP, "gap", true], [6, "additions", true],
    [7, "after CSE", true], [8, "growth", true], [9, "planes A", true], [10, "planes B", true], [RATIO, "speed", true],
    [METHOD, "method", false],
  ];
  const PAGE = 100;
  const table = document.getElementById("schemes");

  const sizes = (text) => {
    const found = text.trim().match(/^(\d+)\s*[x×,]\s*(\d+)\s*[x×,]\s*(\d+)$/i);
    return found ? found.slice(1).map(Number).sort((a, b) => a - b).join("x") : null;
  };

  const startTable = (rows) => {
    const form = document.getElementById("filter");
    const status = document.getElementById("status");
    const more = document.getElementById("more");
    const body = table.tBodies[0];
    const head = table.tHead.rows[0];
    const order = new Map(rows.map((row, i) => [row, i]));
    const found = rows.map((row) => ({
      row,
      sizes: sizes(row[FORMAT]),
      text: [row[NAME], row[DEVICE], row[METHOD], row[SOURCE]].join(" ").toLowerCase(),
    }));
    let sorted = null, falling = false, shown = PAGE, fitting = [];

    const ringOf = (row) => (row[TERNARY] ? `${row[RING]}, ternary` : row[RING]);
    const value = (row, column) => {
      if (column === FORMAT) return order.get(row); // by sizes, as the rows come
      return column === RING ? ringOf(row) : row[column];
    };
    const compare = (a, b) => {
      const [x, y] = [value(a, sorted), value(b, sorted)];
      if (x === y) return order.get(a) - order.get(b);
      if (x === null) return 1; // what is not known comes last either way
      if (y === null) return -1;
      return (x < y ? -1 : 1) * (falling ? -1 : 1);
    };

    const line = (row) => {
      const tr = make("tr");
      const first = make("th", undefined, { scope: "row" });
      const link = make("a", `${row[FORMAT]}:${row[RANK]} `, { href: `schemes/${row[NAME]}.html` });
      link.append(make("code", row[NAME].slice(row[NAME].lastIndexOf("-") + 1).slice(0, 8)));
      first.append(link);
      tr.append(first);
      for (const [column, , number] of COLUMNS.slice(1)) {
        const text = column === RING ? ringOf(row) : row[column];
        const cell = make("td", text === null || text === "" ? "-" : String(text));
        if (number) cell.className = "number";
        if (column === RATIO && row[DEVICE]) cell.title = row[DEVICE];
        tr.append(cell);
      }
      return tr;
    };

    const draw = (from) => {
      const lines = document.createDocumentFragment();
      for (const row of fitting.slice(from, shown)) lines.append(line(row));
      if (from) body.append(lines);
      else body.replaceChildren(lines);
      more.hidden = fitting.length <= shown;
      const seen = Math.min(shown, fitting.length);
      const part = seen < fitting.length ? `, the first ${seen} shown` : "";
      status.textContent = `${fitting.length} of ${rows.length} schemes${part}`;
    };

    const field = (name) => form.elements.namedItem(name);
    const apply = () => {
      const format = field("format").value.trim().toLowerCase();
      const whole = sizes(format);
      const ring = field("ring").value;
      const low = Number(field("low").value) || 0;
      const high = Number(field("high").value) || Infinity;
      const words = field("text").value.toLowerCase().split(/\s+/).filter(Boolean);
      const known = field("known").checked;
      fitting = found.filter((item) =>
        (!format || (whole ? item.sizes === whole : item.row[FORMAT].startsWith(format)))
        && (!ring || (ring === "ZT" ? item.row[TERNARY] : item.row[RING] === ring))
        && item.row[RANK] >= low && item.row[RANK] <= high
        && (!known || (item.row[GAP] !== null && item.row[GAP] <= 0))
        && words.every((word) => item.text.includes(word))).map((item) => item.row);
      if (sorted !== null) fitting.sort(compare);
      shown = PAGE;
      draw(0);
      remember();
    };

    // The address keeps filter and order, so that a view can be sent on.
    const FIELDS = ["format", "ring", "low", "high", "text"];
    const remember = () => {
      const kept = new URLSearchParams();
      for (const name of FIELDS) if (field(name).value) kept.set(name, field(name).value);
      if (field("known").checked) kept.set("known", "1");
      if (sorted !== null) kept.set("sort", `${falling ? "-" : ""}${sorted}`);
      const text = kept.toString();
      if (text !== location.hash.slice(1)) history.replaceState(null, "", text ? `#${text}` : location.pathname);
    };
    const recall = () => {
      const kept = new URLSearchParams(location.hash.slice(1));
      for (const name of FIELDS) field(name).value = kept.get(name) || "";
      field("known").checked = kept.has("known");
      const column = Math.abs(parseInt(kept.get("sort") || "", 10));
      if (COLUMNS.some(([number]) => number === column)) sort(column, kept.get("sort").startsWith("-"));
    };

    const sort = (column, down) => {
      sorted = column;
      falling = down;
      COLUMNS.forEach(([number], i) => {
        const cell = head.cells[i];
        const own = number === sorted;
        if (own) cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
        cell.querySelector("span").textContent = own ? (falling ? " ▼" : " ▲") : "";
      });
    };

    for (const [column, name, number] of COLUMNS) {
      const cell = make("th", undefined, { scope: "col" });
      if (number) cell.className = "number";
      const button = make("button", name, { type: "button" });
      button.append(make("span", "", { "aria-hidden": "true" }));
      button.addEventListener("click", () => {
        // The fastest and the least are what is looked for first.
        sort(column, sorted === column ? !falling : column === RATIO);
        apply();
      });
      cell.append(button);
      head.append(cell);
    }
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(apply));
    more.addEventListener("click", () => {
      const from = shown;
      shown += PAGE;
      draw(from);
      body.rows[from].querySelector("a").focus();
    });
    recall();
    apply();
    form.hidden = false;
    document.getElementById("region").hidden = false;
  };
  if (table && window.SUBCUBIC_SCHEMES) startTable(window.SUBCUBIC_SCHEMES);

  // Scheme page: copy the text of an element.
  for (const button of document.querySelectorAll("[data-copy]")) {
    const source = document.getElementById(button.dataset.copy);
    const said = button.textContent;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        // A browser that asks for permission first may never answer.
        const late = new Promise((_, fail) => setTimeout(fail, 1000));
        await Promise.race([navigator.clipboard.writeText(source.textContent), late]);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => { button.textContent = said; }, 2000);
    });
  }
})();
